// SPDX-License-Identifier: Apache-2.0
// Memory of the application that a connection reads or writes, and that may be taken away at any time. The thread that
// takes it away waits for the lock, which is held for one system call on a non-blocking socket at most.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>

#include "memory/residence.hpp"
#include "ripc/ripc.h"
#include "spi/transport.hpp"

namespace ripc::internal::remote {

// The access of the peer's device to memory of this process.
class RemoteAccess {
 public:
  // Any. After it returns, the device lets no one access the memory, even if the object lives on. Idempotent.
  virtual void end() noexcept = 0;

 protected:
  ~RemoteAccess() = default;
};

// Bytes that may be read while the lock is held.
struct Reading {
  std::unique_lock<std::mutex> lock = {};
  spi::Bytes bytes = {};
  ripc_status status = RIPC_OK;  // anything else: there are no bytes, and nothing is locked
  memory::Pin pin = {};          // empty: the bytes may be unmapped at any time
};

// Memory that may be written while the mutex is held.
struct Destination {
  std::mutex mutex;
  std::byte* memory = nullptr;               // null: it was taken away
  memory::Residence residence;               // of this memory
  std::shared_ptr<RemoteAccess> remote_key;  // lets the peer's device write it; null: none was given

  // With the mutex held.
  void let_in(std::shared_ptr<RemoteAccess> key) noexcept {
    if (remote_key) remote_key->end();
    remote_key = std::move(key);
  }
  // Afterwards nothing writes it.
  void take_away() noexcept {
    const std::lock_guard lock(mutex);
    memory = nullptr;
    let_in(nullptr);
  }
};

}  // namespace ripc::internal::remote
