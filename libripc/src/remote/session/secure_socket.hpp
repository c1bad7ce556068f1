// SPDX-License-Identifier: Apache-2.0
// A connected TCP socket whose bytes travel as they are or, once it is protected, in sealed records. Its user does
// not see which: what it reads and writes is the same, and so are the answers.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "base/clock.hpp"
#include "remote/session/endpoint.hpp"
#include "security/counters.hpp"
#include "security/record.hpp"

namespace ripc::internal::remote {

using CountersPointer = std::shared_ptr<security::Counters>;

// One thread at a time sends and one receives, and no other thread uses the socket while it is moved, protected or
// closed.
class SecureSocket {
 public:
  // Where bytes lie. Kept: in memory that stays as long as a call needs it. Foreign: in memory that may be unmapped at
  // any time, and then a call fails with EFAULT.
  enum class Memory : std::uint8_t { kept, foreign };

  SecureSocket() noexcept;
  SecureSocket(GuardedSocket socket) noexcept;  // NOLINT(google-explicit-constructor): it is one, as it is
  SecureSocket(UniqueFd socket) noexcept;       // NOLINT(google-explicit-constructor): kept by a forked child
  SecureSocket(SecureSocket&&) noexcept;
  SecureSocket& operator=(SecureSocket&&) noexcept;
  ~SecureSocket();

  int fd() const noexcept { return socket_.fd.get(); }
  explicit operator bool() const noexcept { return static_cast<bool>(socket_.fd); }
  void close() noexcept { socket_.close(); }
  // TCP: a connection that was idle for so long, a second or more, asks whether its peer is there, and ends if it is
  // not. So firewalls on the way do not forget it.
  void keep_alive(Nanoseconds idle) const noexcept;
  // A forked child keeps it from now on.
  void unguard() noexcept { socket_.guard.reset(); }

  // Protects both directions, from the next byte on. Throws std::bad_alloc.
  void protect(security::Protection protection, const security::Secret& sends, const security::Secret& receives,
               CountersPointer counters);

  // As sendmsg() and send() that do not wait, with the same errors in errno. A protected socket may have sent more than
  // it reports: the last byte counts only when nothing waits here. The caller continues with the byte after those that
  // count, and waits for room as if the socket had not taken that byte.
  ssize_t send(std::span<iovec> ranges, Memory memory = Memory::kept) noexcept;
  ssize_t send(const std::byte* data, std::size_t size) noexcept;
  // As recvmsg() and recv() that do not wait; without data for the ranges, nothing is left here but what is not a whole
  // record. EBADMSG: a record is forged, and nothing more can be read; the ranges may have changed.
  ssize_t receive(std::span<iovec> ranges, Memory memory = Memory::kept) noexcept;
  ssize_t receive(std::byte* data, std::size_t size) noexcept;
  // The same for bytes that nobody wants.
  ssize_t discard(std::size_t size) noexcept;
  // Bytes were read from the socket and wait here: no event tells of them.
  bool has_buffered() const noexcept;

 private:
  struct State;
  ssize_t seal(std::span<iovec> ranges, Memory memory) noexcept;
  ssize_t open(std::span<iovec> ranges, Memory memory) noexcept;
  bool flush() noexcept;
  std::optional<std::size_t> next_record() const noexcept;
  ssize_t fill() noexcept;

  GuardedSocket socket_;
  std::unique_ptr<State> state_;  // null: not protected
};

}  // namespace ripc::internal::remote
