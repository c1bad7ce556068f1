// SPDX-License-Identifier: Apache-2.0
// What the programs of this folder share.
#pragma once

#include <signal.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <type_traits>

#include "ripc/ripc.hpp"
#include "ripc/rpc.hpp"

namespace kv {

inline int fail(const char* what, const ripc::Error& error) {
  const std::string text(error.text());
  std::fprintf(stderr, "%s: %s: %s\n", what, error.name(), text.c_str());
  return 1;
}

// Lets one thread wait for SIGINT and SIGTERM. Create it before any other thread.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  void wait() const {
    int signal = 0;
    sigwait(&set_, &signal);
  }

 private:
  sigset_t set_;
};

// The plain value in an item.
template <typename T>
std::optional<T> plain(const ripc::ItemView& view) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (!view.ok() || view.bytes().size() != sizeof(T)) return std::nullopt;
  std::optional<T> value(std::in_place);
  std::memcpy(&*value, view.bytes().data(), sizeof(T));
  return value;
}

template <typename T>
ripc::Item plain_item(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return ripc::item(std::as_bytes(std::span(&value, 1)));
}

// Answers a request. If the answer cannot be sent, the call ends without one.
inline void answer(ripc::Request& request, const ripc::Items& items, std::uint32_t code = 0) {
  if (const auto sent = request.reply(items, code); !sent.ok()) request.drop(sent.code());
}
inline void answer(ripc::Request& request, std::uint32_t code) { answer(request, {}, code); }

// Runs an endpoint until `stop` is set and the endpoint's service is interrupted.
inline ripc::Error run_until(ripc::Rpc& rpc, const std::atomic<bool>& stop) {
  while (!stop) {
    const auto events = rpc.run();
    if (!events.ok() && events.code() != RIPC_INTERRUPTED && events.code() != RIPC_TIMEOUT) return events.error();
  }
  return {};
}

}  // namespace kv
