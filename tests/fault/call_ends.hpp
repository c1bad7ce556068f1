// SPDX-License-Identifier: Apache-2.0
// Both ends of calls, in processes that a test may kill. The server logs what ran and the client logs the outcomes, in
// shared memory that outlives both.
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

// One number for each call, in a file that several processes map: how often the call ran, or what its caller knows.
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

// What a caller logs. An outcome is logged as kEnded + outcome.
inline constexpr std::uint8_t kBegun = 1;
inline constexpr std::uint8_t kEnded = 2;

// Whether the outcome is true for a call that ran this many times.
bool is_true(ripc_call_outcome outcome, int runs);

// The server's role. Logs each call and answers most at once, some after later ones; it drops a few. It answers the
// calls of hold() when release() tells it to. Arguments DIRECTORY TRANSPORTS LOG.
int call_server(const std::vector<std::string>& arguments);

// Keeps calls under way and records how each of them ended, also in `told` if it is given.
class Caller {
 public:
  struct End {
    Caller* caller = nullptr;
    std::uint64_t number = 0;
    int times = 0;
    ripc_call_outcome outcome = RIPC_CALL_ANSWERED;
    ripc_status status = RIPC_PENDING;
    bool is_right = true;
    std::string answer = {};            // described if it is wrong
    std::vector<std::byte> large = {};  // the return buffer
  };

  Caller(const Context& context, ripc_service_id id, CallLog* told = nullptr, std::uint64_t first = 0);

  void run(std::uint64_t timeout);
  // Waits until every call has ended; false if that takes too long.
  bool settle();
  // Makes a call that the server keeps until release(), which is a call too. release() also makes the server answer the
  // calls that it answers after others.
  const End& hold(std::uint64_t timeout);
  // The same, with one more argument of this many bytes. It ends without an answer.
  const End& hold_large(std::uint64_t timeout, std::size_t bytes);
  const End& release(std::uint64_t timeout);
  std::uint64_t count(ripc_call_outcome outcome) const { return counts_[outcome]; }
  ripc_rpc_statistics statistics() const;
  // "", or a description of the first call that did not end as it should.
  std::string flaw(CallLog& log) const;

 private:
  End& add();
  void begin(End& end, std::uint32_t method, std::span<const ripc_item> arguments, std::uint64_t timeout);
  const End& begin_plain(std::uint32_t method, std::uint64_t timeout);
  void begin_any(std::uint64_t timeout);
  static void done(void* user, const ripc_call_result* result);

  using Rpc = std::unique_ptr<ripc_rpc, support::Release<ripc_rpc_destroy>>;

  CallLog* const told_;
  const std::uint64_t first_;  // the number of the first call
  std::deque<End> ends_;       // the addresses of its elements stay valid
  std::size_t under_way_ = 0;
  std::uint64_t counts_[3] = {};
  const Service service_;
  const Rpc rpc_;  // its destruction ends the calls that are left
};

}  // namespace fault
