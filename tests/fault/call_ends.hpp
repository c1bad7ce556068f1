// SPDX-License-Identifier: Apache-2.0
// Both ends of calls, in processes that may be killed. The server logs what ran, and the client what it got, in shared
// memory that outlives them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fault_support.hpp"
#include "ripc/rpc.h"

namespace fault {

inline constexpr ripc_service_id kServer = 2001;
inline constexpr ripc_service_id kClient = 2002;
inline constexpr int kIsFenced = 4;  // the server's exit code

// A number for each call, in a file that several processes map: how often it ran, or what its caller knows.
class CallLog {
 public:
  static constexpr std::size_t kMaxCalls = 1 << 24;

  explicit CallLog(const std::string& path);
  ~CallLog();
  CallLog(const CallLog&) = delete;
  CallLog& operator=(const CallLog&) = delete;
  std::atomic<std::uint8_t>& of(std::uint64_t call) { return of_calls_[call]; }

 private:
  std::atomic<std::uint8_t>* of_calls_ = nullptr;
};

// What a caller logs: an outcome is kEnded and more.
inline constexpr std::uint8_t kBegun = 1;
inline constexpr std::uint8_t kEnded = 2;

// Whether this many runs are what an outcome says.
bool is_true(ripc_call_outcome outcome, int runs);

// The role. Logs each call, answers most at once, some after others, and a few never; those of hold() when it is told
// to. Arguments DIRECTORY TRANSPORTS LOG.
int call_server(const std::vector<std::string>& arguments);

// Keeps calls under way, and knows how each of them ended. `told`, if it is given, gets to know it too.
class Caller {
 public:
  struct End {
    Caller* caller = nullptr;
    std::uint64_t number = 0;
    int times = 0;
    ripc_call_outcome outcome = RIPC_CALL_ANSWERED;
    ripc_status status = RIPC_PENDING;
    bool is_right = true;
    std::vector<std::byte> large = {};  // the return buffer
  };

  Caller(const Context& context, ripc_service_id id, CallLog* told = nullptr, std::uint64_t first = 0);

  void run(std::uint64_t timeout);
  // Until every call has ended.
  bool settle();
  // A call that the server has until release(), which is one too. That also ends those that are answered after others.
  const End& hold(std::uint64_t timeout);
  const End& release(std::uint64_t timeout);
  std::uint64_t count(ripc_call_outcome outcome) const { return counts_[outcome]; }
  ripc_rpc_statistics statistics() const;
  // "", or what is not as it should be.
  std::string flaw(CallLog& log) const;

 private:
  End& add();
  void begin(End& end, std::uint32_t method, std::span<const ripc_item> arguments, std::uint64_t timeout);
  const End& begin_plain(std::uint32_t method, std::uint64_t timeout);
  void begin_any(std::uint64_t timeout);
  static void done(void* user, const ripc_call_result* result);

  using Rpc = std::unique_ptr<ripc_rpc, support::Release<ripc_rpc_destroy>>;

  CallLog* const told_;
  const std::uint64_t first_;  // number of a call
  std::deque<End> ends_;       // whose addresses stay
  std::size_t under_way_ = 0;
  std::uint64_t counts_[3] = {};
  const Service service_;
  const Rpc rpc_;  // ends the calls that are left when it goes
};

}  // namespace fault
