// SPDX-License-Identifier: Apache-2.0
#include "hostile.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace fault {

void HostileLink::commit(const std::vector<std::byte>& packet) {
  shm::Cell& target = cell(next);
  target.length.store(static_cast<std::uint32_t>(packet.size()));
  std::memcpy(target.bytes, packet.data(), std::min(packet.size(), sizeof target.bytes));
  target.sequence.store(++next);
  ring();
}

void HostileLink::ring() const {
  const std::uint64_t one = 1;
  [[maybe_unused]] const ssize_t written = ::write(doorbell.get(), &one, sizeof one);
}

Hostile::Hostile(const std::string& directory, std::uint64_t victim)
    : context_((static_cast<std::uint64_t>(getpid()) << 32) ^ now()) {
  auto opened = ripc::internal::RuntimeDirectory::open(directory.c_str(), RIPC_PEERS_SAME_USER);
  if (!opened.ok()) return;
  ripc::internal::UniqueFd socket;
  eventually([&] {
    auto result = (*opened)->connect(victim);
    if (result.ok()) socket = std::move(*result);
    return result.ok() || result.status().code() != RIPC_AGAIN;
  });
  if (socket) connection_ = std::make_unique<shm::ControlConnection>(std::move(socket));
}

bool Hostile::send_raw(const std::vector<std::byte>& bytes, std::span<const int> descriptors) {
  if (!connection_) return false;
  return eventually(
             [&] {
               connection_->flush();
               return connection_->send(bytes, descriptors) != RIPC_AGAIN;
             },
             5 * kSecond) &&
         !closed_;
}

bool Hostile::greet() {
  if (!send(control::Hello{.context = context_, .pid = static_cast<std::uint32_t>(getpid()), .flags = 0})) return false;
  const auto reply = wait_for<control::HelloReply>();
  return reply && reply->status == RIPC_OK;
}

bool Hostile::closed() {
  while (!closed_) {
    const auto event = connection_->receive(received_);
    if (event == shm::ControlConnection::Event::nothing) break;
    closed_ = event == shm::ControlConnection::Event::closed;
  }
  return closed_;
}

std::optional<HostileLink> Hostile::open(ripc_service_id service, std::uint64_t link) {
  if (!send(control::Open{.request = link, .service = service, .link = link, .reserved = 0, .reserved2 = 0})) return {};
  const auto opened = wait_for<control::Opened>();
  if (!opened || opened->status != RIPC_OK) return {};
  HostileLink made;
  made.link = link;
  made.geometry = {opened->cells, opened->data_bytes};
  made.memory_fd = std::move(received_.descriptors[0]);
  made.doorbell = std::move(received_.descriptors[1]);
  made.state_fd = std::move(received_.descriptors[2]);
  auto mapping = ripc::internal::map_foreign_memory(made.memory_fd.get(), made.geometry.total(), true);
  if (!mapping.ok()) return {};
  made.memory = std::move(*mapping);
  return made;
}

std::uint64_t only_context(const std::string& directory) {
  const std::vector<std::string> names = names_in(directory + "/contexts");
  return names.size() == 1 ? ripc::internal::RuntimeDirectory::number_of(names.front()).value_or(0) : 0;
}

namespace {

std::vector<std::byte> joined(ripc::internal::wire::Encoder& encoder) {
  std::vector<std::byte> packet;
  for (const auto& range : encoder.finish()) packet.insert(packet.end(), range.begin(), range.end());
  return packet;
}

}  // namespace

std::vector<std::byte> short_packet(ripc_service_id source, std::span<const std::byte> item) {
  ripc::internal::wire::Encoder encoder(ripc::internal::wire::PacketKind::message, 0, source);
  encoder.add_payload(item);
  return joined(encoder);
}

std::vector<std::byte> long_packet(ripc_service_id source, std::span<const ripc::internal::wire::Descriptor> items) {
  ripc::internal::wire::Encoder encoder(ripc::internal::wire::PacketKind::message, 0, source);
  for (const ripc::internal::wire::Descriptor& item : items) encoder.add(item);
  return joined(encoder);
}

ripc::internal::UniqueFd make_memfd(std::size_t size, bool sealed) {
  ripc::internal::UniqueFd fd(memfd_create("hostile", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd || ftruncate(fd.get(), static_cast<off_t>(size)) != 0) return {};
  if (sealed && fcntl(fd.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW) != 0) return {};
  return fd;
}

}  // namespace fault
