// SPDX-License-Identifier: Apache-2.0
// Puts together a packet of a link that comes in several datagrams, because it is too large for one. As in eRPC (Kalia
// et al., NSDI 2019), these datagrams take the link's credit, and the buffers that the receiver sets aside for the
// link.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>

#include "wire/datagram.hpp"

namespace ripc::internal::remote {

// One thread. Has no memory until a datagram of such a packet comes.
class PacketAssembly {
 public:
  // Adds the next fresh datagram of the link that carries only a part of its packet: copies `bytes`, that part.
  // RIPC_OK: the packet is whole; RIPC_PENDING: it is not, or an earlier datagram is missing, so that it never will be;
  // RIPC_CORRUPT: it is larger than a packet may be; RIPC_NO_MEMORY. Any status but the first two drops the packet.
  ripc_status add(const wire::datagram::Header& header, std::span<const std::byte> bytes) noexcept {
    const unsigned datagrams = header.before + header.after + 1u;
    if (header.before == 0) {
      datagrams_ = datagrams;
      size_ = 0;
      next_ = header.sequence;
    }
    if (datagrams_ != datagrams || next_ != header.sequence) return RIPC_PENDING;
    ++next_;
    if (!memory_) memory_.reset(new (std::nothrow) std::byte[wire::datagram::kMaxPacket]);
    if (!memory_ || bytes.size() > wire::datagram::kMaxPacket - size_) {
      datagrams_ = 0;
      return memory_ ? RIPC_CORRUPT : RIPC_NO_MEMORY;
    }
    std::memcpy(memory_.get() + size_, bytes.data(), bytes.size());
    size_ += bytes.size();
    if (header.after != 0) return RIPC_PENDING;
    datagrams_ = 0;
    return RIPC_OK;
  }
  // The last packet that was whole. Valid until the next add().
  std::span<const std::byte> packet() const noexcept { return {memory_.get(), size_}; }

 private:
  std::unique_ptr<std::byte[]> memory_;
  std::size_t size_ = 0;    // of what is there
  std::uint32_t next_ = 0;  // number of the datagram that continues it
  unsigned datagrams_ = 0;  // of it, in all; 0: there is none
};

}  // namespace ripc::internal::remote
