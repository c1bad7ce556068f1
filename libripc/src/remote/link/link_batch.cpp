// SPDX-License-Identifier: Apache-2.0
#include "remote/link/link_batch.hpp"

#include <errno.h>
#include <netinet/udp.h>

#include <cstring>

namespace ripc::internal::remote {

void LinkBatch::add(const wire::datagram::Header& header, const wire::Plain& message) noexcept {
  auto& head = heads_[count_];
  wire::datagram::HeaderBytes bytes;
  wire::datagram::encode(header, bytes);
  std::memcpy(head.data(), bytes.data(), bytes.size());
  const std::byte* end = wire::write_plain_head(message, head.data() + bytes.size());
  first_part_[count_] = static_cast<std::uint32_t>(parts_used_);
  parts_[parts_used_++] = {head.data(), static_cast<std::size_t>(end - head.data())};
  for (const ripc_item& item : message.items) {
    if (item.size != 0) parts_[parts_used_++] = {const_cast<void*>(item.data), item.size};
  }
  sizes_[count_] = static_cast<std::uint32_t>(bytes.size() + message.packet_size());
  first_part_[++count_] = static_cast<std::uint32_t>(parts_used_);
}

std::size_t LinkBatch::send(int fd, std::atomic<bool>& segment) noexcept {
  const bool cut = segment.load(std::memory_order_relaxed);
  std::size_t sent = send_from(fd, 0, cut);
  if (sent == count_ || !cut || (errno != EINVAL && errno != EIO && errno != EOPNOTSUPP)) return sent;
  // The path cannot cut, or the datagrams are too large for it: one at a time tells which.
  const std::size_t singly = send_from(fd, sent, false);
  if (singly != 0) segment.store(false, std::memory_order_relaxed);
  return sent + singly;
}

// What the system took of the datagrams from `first` on.
std::size_t LinkBatch::send_from(int fd, std::size_t first, bool segment) noexcept {
  std::array<mmsghdr, kMost> headers;
  std::array<std::uint32_t, kMost> datagrams;  // of each header
  alignas(cmsghdr) std::array<Control, kMost> controls;
  unsigned count = 0;
  for (std::size_t index = first; index < count_;) {
    std::size_t end = index + 1;
    while (segment && end < count_ && sizes_[end] == sizes_[index] && (end + 1 - index) * sizes_[index] <= kMostBytes)
      ++end;
    msghdr& header = headers[count].msg_hdr;
    header = {};
    header.msg_iov = &parts_[first_part_[index]];
    header.msg_iovlen = first_part_[end] - first_part_[index];
    if (end - index > 1) {
      header.msg_control = controls[count].data();
      header.msg_controllen = controls[count].size();
      cmsghdr* control = CMSG_FIRSTHDR(&header);
      control->cmsg_level = SOL_UDP;
      control->cmsg_type = UDP_SEGMENT;
      control->cmsg_len = CMSG_LEN(sizeof(std::uint16_t));
      const auto size = static_cast<std::uint16_t>(sizes_[index]);
      std::memcpy(CMSG_DATA(control), &size, sizeof size);
    }
    datagrams[count++] = static_cast<std::uint32_t>(end - index);
    index = end;
  }
  std::size_t sent = 0;
  for (unsigned done = 0; done < count;) {
    const int taken = sendmmsg(fd, headers.data() + done, count - done, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (taken < 0 && errno == EINTR) continue;
    if (taken < 0) break;
    for (int header = 0; header < taken; ++header) sent += datagrams[done++];
  }
  return sent;
}

}  // namespace ripc::internal::remote
