// SPDX-License-Identifier: Apache-2.0
#include "transport/shm/control_connection.hpp"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace ripc::internal::shm {

namespace {

// The limit of messages for a peer that does not read; beyond it, senders get RIPC_AGAIN.
constexpr std::size_t kMaxQueued = 1024;
// Bounds what a peer can make this process remember. No honest pool has nearly as many.
constexpr std::size_t kMaxForeignArenas = 4096;
// Holds every message but Control without another allocation.
constexpr std::size_t kUsualMessage = 256;
// The kernel says when a socket is writable, but not when it has memory again, or can take more descriptors.
constexpr Nanoseconds kReturnRetry = 10'000'000;

std::size_t foreign_limit() noexcept {
  const long pages = sysconf(_SC_PHYS_PAGES);
  const long page_size = sysconf(_SC_PAGESIZE);
  return 2 * static_cast<std::size_t>(std::max(pages, 1L)) * static_cast<std::size_t>(std::max(page_size, 1L));
}

// Whether the socket does not take the message now, but will later.
bool must_wait(ripc_status status) noexcept { return status == RIPC_AGAIN || status == RIPC_LIMIT; }

// No peer needs to send a socket of the network. Whoever closes such a socket last waits for its unsent bytes, if the
// sender has asked for that with SO_LINGER. So it is closed before the sender can ask again.
bool close_network_socket(UniqueFd& descriptor) noexcept {
  int domain = AF_UNSPEC;
  socklen_t size = sizeof domain;
  if (getsockopt(descriptor.get(), SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 || domain == AF_UNIX) return false;
  const linger none{};
  (void)setsockopt(descriptor.get(), SOL_SOCKET, SO_LINGER, &none, sizeof none);
  descriptor.reset();
  return true;
}

union DescriptorBuffer {
  cmsghdr alignment;
  char bytes[CMSG_SPACE(sizeof(int) * kMaxDescriptors)];
};

}  // namespace

ControlConnection::ControlConnection(UniqueFd socket, ForkGuard guard)
    : socket_(std::move(socket)), guard_(std::move(guard)) {
  ucred peer{};
  socklen_t size = sizeof peer;
  if (getsockopt(socket_.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
    credentials_ = {peer.pid, peer.uid, peer.gid};
  } else {
    credentials_ = {0, static_cast<uid_t>(-1), static_cast<gid_t>(-1)};
  }
  peer_may_map_ = credentials_.uid == geteuid() || credentials_.uid == 0;
  process_ = credentials_.uid == geteuid()
                 ? std::make_unique<PeerProcess>(open_peer_process(socket_.get(), credentials_.pid), credentials_.pid)
                 : std::make_unique<PeerProcess>(Reach::other_user);
  encoded_.reserve(kUsualMessage);
}

ControlConnection::~ControlConnection() { guard_.close(socket_); }

void ControlConnection::attach(EventLoop& loop) {
  const std::lock_guard lock(mutex_);
  loop_ = &loop;
  retry_timer_.make(loop, [this] { (void)loop_->modify(socket_.get(), EPOLLIN | EPOLLOUT); });
}

ripc_status ControlConnection::send_now(std::span<const std::byte> message, std::span<const int> descriptors) noexcept {
  iovec part{const_cast<std::byte*>(message.data()), message.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  DescriptorBuffer buffer;
  if (!descriptors.empty()) {
    header.msg_control = buffer.bytes;
    header.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
    std::memset(buffer.bytes, 0, header.msg_controllen);  // the padding is sent too
    cmsghdr* control = CMSG_FIRSTHDR(&header);
    control->cmsg_level = SOL_SOCKET;
    control->cmsg_type = SCM_RIGHTS;
    control->cmsg_len = CMSG_LEN(descriptors.size_bytes());
    std::memcpy(CMSG_DATA(control), descriptors.data(), descriptors.size_bytes());
  }
  for (;;) {
    if (sendmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_NOSIGNAL) >= 0) return RIPC_OK;
    if (errno == EINTR) continue;
    if (errno == EAGAIN) return RIPC_AGAIN;
    if (errno == ENOBUFS || errno == ENOMEM || errno == ETOOMANYREFS) return RIPC_LIMIT;
    if (errno == EMSGSIZE) return RIPC_TOO_LARGE;
    return RIPC_PEER_DEAD;
  }
}

ripc_status ControlConnection::send(std::span<const std::byte> message, std::span<const int> descriptors) noexcept {
  const std::lock_guard lock(mutex_);
  return send_locked(message, descriptors);
}

ripc_status ControlConnection::send_locked(std::span<const std::byte> message,
                                           std::span<const int> descriptors) noexcept {
  ripc_status status = RIPC_OK;
  if (outbox_.empty()) {
    status = send_now(message, descriptors);
    if (!must_wait(status)) return status;
  }
  if (outbox_.size() >= kMaxQueued) return RIPC_AGAIN;
  try {
    if (const ripc_status queued = queue_locked(message, descriptors); queued != RIPC_OK) return queued;
  } catch (const std::bad_alloc&) {
    return RIPC_NO_MEMORY;
  }
  if (outbox_.size() == 1) flush_later_locked(status);
  return RIPC_OK;
}

ripc_status ControlConnection::queue_locked(std::span<const std::byte> message, std::span<const int> descriptors) {
  Queued queued;
  queued.bytes.assign(message.begin(), message.end());
  queued.descriptors.reserve(descriptors.size());
  for (const int descriptor : descriptors) {
    UniqueFd copy(fcntl(descriptor, F_DUPFD_CLOEXEC, 0));
    // More room in the queue would not help: a wait for room would end at once, again and again.
    if (!copy) return RIPC_NO_DESCRIPTORS;
    queued.descriptors.push_back(std::move(copy));
  }
  outbox_.push_back(std::move(queued));
  return RIPC_OK;
}

void ControlConnection::added() noexcept {
  const std::lock_guard lock(mutex_);
  if (!outbox_.empty() || !notices_.empty()) flush_later_locked(RIPC_AGAIN);
}

void ControlConnection::flush_later_locked(ripc_status status) noexcept {
  if (loop_ == nullptr) return;
  (void)loop_->modify(socket_.get(), status == RIPC_LIMIT ? EPOLLIN : EPOLLIN | EPOLLOUT);
  if (status == RIPC_LIMIT) retry_timer_.set(monotonic_now() + kReturnRetry);
}

void ControlConnection::notify_locked(std::span<const std::byte> message) noexcept {
  const ripc_status status = send_locked(message, {});
  if (status != RIPC_AGAIN && status != RIPC_NO_MEMORY) return;
  try {
    // With something in the outbox the loop waits for the socket already.
    notices_.emplace(message.begin(), message.end());
    if (outbox_.empty()) flush_later_locked(RIPC_AGAIN);
  } catch (const std::bad_alloc&) {
    shut_down();
  }
}

void ControlConnection::flush() noexcept {
  const std::lock_guard lock(mutex_);
  while (!outbox_.empty()) {
    std::array<int, kMaxDescriptors> descriptors{};
    const Queued& first = outbox_.front();
    std::transform(first.descriptors.begin(), first.descriptors.end(), descriptors.begin(),
                   [](const UniqueFd& descriptor) { return descriptor.get(); });
    const ripc_status status = send_now(first.bytes, std::span(descriptors).first(first.descriptors.size()));
    if (must_wait(status)) return flush_later_locked(status);
    outbox_.pop_front();
  }
  while (!notices_.empty()) {
    const ripc_status status = send_now(*notices_.begin(), {});
    if (must_wait(status)) return flush_later_locked(status);
    notices_.erase(notices_.begin());
  }
  if (loop_ != nullptr) (void)loop_->modify(socket_.get(), EPOLLIN);
}

bool ControlConnection::has_room() const noexcept {
  const std::lock_guard lock(mutex_);
  return outbox_.size() < kMaxQueued;
}

bool ControlConnection::request_room() noexcept {
  const std::lock_guard lock(mutex_);
  room_wanted_ = outbox_.size() >= kMaxQueued;
  return !room_wanted_;
}

bool ControlConnection::take_room() noexcept {
  const std::lock_guard lock(mutex_);
  return outbox_.size() < kMaxQueued && std::exchange(room_wanted_, false);
}

ControlConnection::Event ControlConnection::receive(Received& received) noexcept {
  // Zeroing 64 KiB for each small message would cost more than the message.
  if (received.bytes.size() < kMaxControlMessage) received.bytes.resize(kMaxControlMessage);
  received.size = 0;
  for (UniqueFd& descriptor : received.descriptors) descriptor.reset();
  iovec part{received.bytes.data(), received.bytes.size()};
  DescriptorBuffer buffer;
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  header.msg_control = buffer.bytes;
  header.msg_controllen = sizeof buffer.bytes;
  const ssize_t size = recvmsg(socket_.get(), &header, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
  if (size < 0) return errno == EAGAIN || errno == EINTR ? Event::nothing : Event::closed;
  std::size_t count = 0;
  for (cmsghdr* control = CMSG_FIRSTHDR(&header); control != nullptr; control = CMSG_NXTHDR(&header, control)) {
    if (control->cmsg_level != SOL_SOCKET || control->cmsg_type != SCM_RIGHTS) continue;
    const std::size_t bytes = control->cmsg_len - CMSG_LEN(0);
    for (std::size_t offset = 0; offset + sizeof(int) <= bytes; offset += sizeof(int)) {
      int number = -1;
      std::memcpy(&number, CMSG_DATA(control) + offset, sizeof number);
      UniqueFd descriptor(number);
      if (!close_network_socket(descriptor) && count < received.descriptors.size())
        received.descriptors[count++] = std::move(descriptor);
    }
  }
  if (size == 0) return Event::closed;
  if ((header.msg_flags & MSG_TRUNC) != 0) return Event::closed;
  received.descriptors_lost = (header.msg_flags & MSG_CTRUNC) != 0;
  received.size = static_cast<std::size_t>(size);
  return Event::message;
}

void ControlConnection::shut_down() noexcept { ::shutdown(socket_.get(), SHUT_RDWR); }

void ControlConnection::detach() noexcept {
  const std::lock_guard lock(mutex_);
  retry_timer_.cancel();
  loop_ = nullptr;
}

ripc_status ControlConnection::announce(const memory::Arena& arena) noexcept try {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = announced_.insert(arena.id);
  if (!is_new) return RIPC_OK;
  const std::array<int, 1> descriptor{arena.fd};
  ripc_status status = wire::shm_control::encode(
      wire::shm_control::Arena{
          .id = arena.id, .flags = arena.huge_pages ? wire::shm_control::kArenaHugePages : 0, .size = arena.size},
      encoded_);
  if (status == RIPC_OK) status = send_locked(encoded_, descriptor);
  if (status != RIPC_OK) announced_.erase(place);
  return status;
} catch (const std::bad_alloc&) {
  return RIPC_NO_MEMORY;
}

void ControlConnection::retract(std::uint32_t arena) noexcept {
  const std::lock_guard lock(mutex_);
  if (announced_.erase(arena) == 0) return;
  // If the peer is too busy to get this, it keeps a mapping of unused memory until the connection ends: harmless.
  if (wire::shm_control::encode(wire::shm_control::ArenaGone{.id = arena}, encoded_) == RIPC_OK)
    (void)send_locked(encoded_, {});
}

Status ControlConnection::add_foreign_arena(std::uint32_t id, std::size_t size, bool huge_pages, int descriptor) {
  {
    const std::lock_guard lock(mutex_);
    if (foreign_arenas_.size() >= kMaxForeignArenas)
      return Status(RIPC_LIMIT, "A peer announced more than 4096 memory arenas; its connection is closed.");
    // No honest pool has more memory than the machine. Memory that is not mapped is copied through the bounce buffer.
    if (size > foreign_limit() || foreign_bytes_ > foreign_limit() - size) descriptor = -1;
  }
  std::shared_ptr<const Mapping> shared;
  if (descriptor >= 0) {
    Result<Mapping> mapping = map_foreign_memory(descriptor, size, false, !huge_pages);
    if (!mapping.ok() && mapping.status() == RIPC_CORRUPT) return mapping.status();
    if (mapping.ok()) shared = std::make_shared<const Mapping>(std::move(*mapping));
  }
  const std::lock_guard lock(mutex_);
  std::shared_ptr<const Mapping>& slot = foreign_arenas_[id];
  if (slot) foreign_bytes_ -= slot->size();
  if (shared) foreign_bytes_ += shared->size();
  slot = std::move(shared);
  return {};
}

void ControlConnection::remove_foreign_arena(std::uint32_t id) noexcept {
  std::shared_ptr<const Mapping> unmapped_outside_the_lock;
  const std::lock_guard lock(mutex_);
  const auto found = foreign_arenas_.find(id);
  if (found == foreign_arenas_.end()) return;
  if (found->second) foreign_bytes_ -= found->second->size();
  unmapped_outside_the_lock = std::move(found->second);
  foreign_arenas_.erase(found);
}

ripc_status ControlConnection::foreign_arena(std::uint32_t id, std::shared_ptr<const Mapping>& mapping) const noexcept {
  const std::lock_guard lock(mutex_);
  const auto found = foreign_arenas_.find(id);
  if (found == foreign_arenas_.end()) return RIPC_PENDING;
  mapping = found->second;
  return mapping ? RIPC_OK : RIPC_UNSUPPORTED;
}

}  // namespace ripc::internal::shm
