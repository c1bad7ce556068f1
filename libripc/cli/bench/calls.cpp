// SPDX-License-Identifier: Apache-2.0
// Calls: a window of them is under way all the time. The payload travels there, and all or the beginning of it travels
// back. It goes in the message if it fits; else it is lent from leased buffers, and comes back into return buffers.
// Every payload is checked.
// Symmetric: both sides call and answer. Each side has several callers; the calls of a caller's window begin together
// when its last ones have ended.
#include <algorithm>
#include <atomic>
#include <bit>
#include <chrono>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "bench/options.hpp"
#include "bench/pair.hpp"
#include "bench/payload.hpp"
#include "bench/tally.hpp"
#include "bench/ticks.hpp"
#include "ripc/rpc.hpp"

namespace cli::bench {
namespace {

constexpr std::uint32_t kEchoMethod = 0;
constexpr std::uint32_t kGoodCode = 0;
constexpr std::uint32_t kBadCode = 1;  // the request was not what was sent
constexpr auto kTurn = std::chrono::milliseconds(10);
constexpr auto kCallTimeout = std::chrono::seconds(30);
constexpr std::uint64_t kCheckWholeEvery = 16;  // of large payloads
constexpr std::uint64_t kTimeEvery = 16;        // of concurrent calls: reading the clock twice costs 40 ns

// Whether run() found nothing to do, which is no failure.
bool is_quiet(const ripc::Error& error) {
  return error.code() == RIPC_TIMEOUT || error.code() == RIPC_EMPTY || error.code() == RIPC_INTERRUPTED;
}

std::uint64_t under_way_at_most(const BenchOptions& options) {
  return options.window * (options.symmetric ? options.callers : 1);
}

// ---- One side ------------------------------------------------------------------------------------------------

// Must outlive the endpoint, which ends its calls.
class Caller {
 public:
  Caller(Side& side, const BenchOptions& options, Library& library, ripc::Rpc& rpc)
      : side_(side), options_(options), library_(library), rpc_(rpc) {}

  // Answers calls from now on.
  ripc::Error answer() {
    return rpc_.on(kEchoMethod, [this](ripc::Request request) {
      const ripc::Bytes bytes = request.item(0).bytes();
      const bool good = bytes.size() == options_.size && check_large(bytes, sequence_of(bytes));
      const ripc::Bytes back = bytes.first(std::min<std::size_t>(bytes.size(), options_.answer));
      const ripc::Item item = request.return_count() > 0 ? ripc::return_item(back) : ripc::item(back);
      auto ticket = request.reply({item}, good ? kGoodCode : kBadCode);
      if (!ticket.ok()) fail_with(ticket.error());
    });
  }

  ripc::Error prepare() {
    const bool is_returned = library_.kind == "long" && options_.answer > kSmall;
    together_ = options_.symmetric ? options_.window : 1;
    const std::uint64_t count = under_way_at_most(options_);
    under_way_of_.assign(count / together_, 0);
    for (std::uint64_t index = 0; index < count; ++index) {
      slots_.push_back(std::make_unique<Slot>());
      Slot& slot = *slots_.back();
      slot.owner = this;
      slot.index = index;
      auto lease = library_.context.lease(std::max<std::size_t>(options_.size, 1));
      if (!lease.ok()) return lease.error();
      slot.lease = *std::move(lease);
      slot.payload = slot.lease.bytes().first(options_.size);
      prepare_large(slot.payload, index);
      if (is_returned) slot.landing.resize(options_.answer);
      slot.returned = {slot.landing.data(), slot.landing.size()};
    }
    return {};
  }

  // Makes `count` calls, and appends the times of some to samples. Returns how long all took, in nanoseconds.
  ripc::Result<double> block(std::uint64_t count, std::vector<double>& samples) {
    if (!side_.control.send({}) || !side_.control.receive()) return other_side_ended();
    samples_ = &samples;
    end_ = next_ + count;
    const std::uint64_t start = clock_.now();
    begin_all();
    while ((under_way_ > 0 || !still_lent_.empty()) && failure_.ok()) {
      const auto events = rpc_.run(still_lent_.empty() ? ripc::Nanoseconds(kCallTimeout) : ripc::kNoWait);
      if (!events.ok() && !is_quiet(events.error())) return events.error();
      begin_with_what_came_back();
    }
    const double nanoseconds = clock_.nanoseconds(clock_.now() - start);
    if (!failure_.ok()) return failure_;
    if (const auto error = options_.symmetric ? end_symmetric() : ripc::Error(); !error.ok()) return error;
    return nanoseconds;
  }

  // For the other side, while the measuring side calls: answers, and also calls in a symmetric measurement.
  ripc::Error accompany() {
    std::vector<double> samples;
    samples_ = &samples;
    end_ = options_.symmetric ? UINT64_MAX : 0;
    begin_all();
    // An answer may have to be sent again even while the caller keeps calling.
    for (std::uint64_t turns = 1;; ++turns) {
      bool is_idle = false;
      if (const auto error = run(is_idle); !error.ok()) return error;
      samples.clear();
      const bool is_time = is_idle || (options_.symmetric && turns % kTurnsBetweenLooks == 0);
      if (is_time && side_.control.has_said()) break;
    }
    if (!options_.symmetric || !side_.control.receive()) return {};
    end_ = next_;
    while (under_way_ > 0)
      if (const auto error = run(); !error.ok()) return error;
    return side_.control.send({}) ? ripc::Error() : other_side_ended();
  }

  std::uint64_t answered() const { return answered_; }

  void put(Json& json) {
    json["answered"] = answered_;
    json["did_not_run"] = did_not_run_;
    json["may_have_run"] = may_have_run_;
    if (const auto statistics = rpc_.statistics(); statistics.ok()) json["repeats"] = statistics->repeats;
    tally_.put(json);
  }

 private:
  static constexpr std::uint64_t kTurnsBetweenLooks = 256;

  // Makes sure that the other side's last calls are answered, too.
  ripc::Error end_symmetric() {
    if (!side_.control.send({})) return other_side_ended();
    while (!side_.control.has_said())
      if (const auto error = run(); !error.ok()) return error;
    return side_.control.receive() ? ripc::Error() : other_side_ended();
  }

  ripc::Error run() {
    bool is_idle = false;
    return run(is_idle);
  }
  ripc::Error run(bool& is_idle) {
    const auto events = rpc_.run(kTurn);
    is_idle = !events.ok() && is_quiet(events.error());
    if (!failure_.ok()) return failure_;
    return events.ok() || is_idle ? ripc::Error() : events.error();
  }

  void begin_all() {
    for (std::uint64_t caller = 0; caller < under_way_of_.size(); ++caller) begin_together(caller);
  }

  void begin_together(std::uint64_t caller) {
    for (std::uint64_t slot = caller * together_; slot < (caller + 1) * together_; ++slot)
      if (next_ < end_ && failure_.ok()) begin(*slots_[slot]);
  }

  // One of the calls of the window.
  struct Slot {
    Caller* owner = nullptr;
    std::uint64_t index = 0;
    ripc::Buffer lease;
    ripc::WritableBytes payload;
    std::vector<std::byte> landing;
    ripc::ReturnBuffer returned{};
    std::atomic<bool> lent{false};
    std::uint64_t sequence = 0;
    bool is_timed = false;
    std::uint64_t start = 0;
  };

  static void end(void* user, const ripc_call_result* result) noexcept {
    Slot& slot = *static_cast<Slot*>(user);
    slot.owner->ended(slot, ripc::CallResult(*result));
  }

  void begin(Slot& slot) {
    slot.sequence = next_++;
    write_large(slot.payload, slot.sequence);
    const ripc::Item item = library_.kind == "long" ? ripc::borrow(slot.payload) : ripc::item(slot.payload);
    ripc_call_options call_options;
    ripc_call_options_init(&call_options);
    call_options.timeout = static_cast<std::uint64_t>(ripc::Nanoseconds(kCallTimeout).count());
    call_options.return_count = slot.landing.empty() ? 0 : 1;
    call_options.returns = &slot.returned;
    if (library_.kind == "long") {
      slot.lent = true;
      call_options.loan_ended = [](void* user, ripc_status) { static_cast<Slot*>(user)->lent = false; };
      call_options.loan_user = &slot;
    }
    slot.is_timed = options_.window == 1 || slot.sequence % kTimeEvery == 0;
    if (slot.is_timed) slot.start = clock_.now();
    const ripc_status status =
        ripc_rpc_call(rpc_.handle(), library_.peer, kEchoMethod, &item, 1, &call_options, &Caller::end, &slot, nullptr);
    if (status != RIPC_OK) return fail_with(ripc::Error::from_last_call(status));
    ++under_way_;
    ++under_way_of_[slot.index / together_];
  }

  void ended(Slot& slot, const ripc::CallResult& result) {
    const std::uint64_t end = slot.is_timed ? clock_.now() : 0;
    const std::uint64_t caller = slot.index / together_;
    --under_way_;
    --under_way_of_[caller];
    if (result.answered()) {
      ++answered_;
      if (slot.is_timed) samples_->push_back(clock_.nanoseconds(end - slot.start));
      check(slot, result);
    } else {
      ++(result.outcome() == RIPC_CALL_DID_NOT_RUN ? did_not_run_ : may_have_run_);
      ++tally_.lost;
    }
    if (slot.lent) {
      still_lent_.push_back(&slot);
    } else if (under_way_of_[caller] == 0) {
      begin_together(caller);
    }
  }

  // The server releases a request soon after its answer.
  void begin_with_what_came_back() {
    std::erase_if(still_lent_, [&](Slot* slot) {
      if (slot->lent) return false;
      if (next_ < end_ && failure_.ok()) begin(*slot);
      return true;
    });
  }

  void check(const Slot& slot, const ripc::CallResult& result) {
    const ripc::ItemView view = result.item(0);
    const ripc::Bytes bytes = view.bytes();
    if (result.code() != kGoodCode || !view.ok() || bytes.size() != options_.answer) {
      tally_.check(false);
    } else if (options_.size <= kSmall) {
      tally_.check(check_pattern(bytes, slot.sequence));
    } else if (options_.answer < options_.size) {
      // The beginning of a large payload: its sequence number, then the bytes that were prepared once.
      scratch_.assign(bytes.begin(), bytes.end());
      const bool good = sequence_of(bytes) == slot.sequence || bytes.size() < sizeof(slot.sequence);
      std::memcpy(scratch_.data(), &slot.index, std::min(scratch_.size(), sizeof(slot.index)));
      tally_.check(good && check_pattern(scratch_, slot.index));
    } else if (slot.sequence % kCheckWholeEvery == 0) {
      ++tally_.checked;
      tally_.check_whole(check_large_whole(bytes, slot.sequence, slot.index));
    } else {
      tally_.check(check_large(bytes, slot.sequence));
    }
  }

  void fail_with(const ripc::Error& error) {
    if (failure_.ok()) failure_ = error;
  }

  Side& side_;
  const BenchOptions& options_;
  Library& library_;
  ripc::Rpc& rpc_;
  TickClock clock_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::vector<Slot*> still_lent_;
  std::vector<std::byte> scratch_;
  std::vector<double>* samples_ = nullptr;
  std::uint64_t next_ = 0;  // sequence number
  std::uint64_t end_ = 0;
  std::uint64_t together_ = 1;               // calls of one caller, which begin together
  std::vector<std::uint64_t> under_way_of_;  // by caller
  std::uint64_t under_way_ = 0;
  std::uint64_t answered_ = 0, did_not_run_ = 0, may_have_run_ = 0;
  ripc::Error failure_;
  Tally tally_;
};

// ---- The two sides -------------------------------------------------------------------------------------------

ripc::Result<ripc::Rpc> make_endpoint(Library& library, const BenchOptions& options) {
  ripc::RpcOptions rpc_options;
  rpc_options.slots = static_cast<std::uint32_t>(std::bit_ceil(under_way_at_most(options)));
  return ripc::Rpc::create(library.service, rpc_options);
}

ripc::Error calls_side(Side& side, const BenchOptions& options) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  std::unique_ptr<Caller> caller;
  auto rpc = make_endpoint(*library, options);
  if (!rpc.ok()) return rpc.error();
  caller = std::make_unique<Caller>(side, options, *library, *rpc);
  if (const auto error = caller->answer(); !error.ok()) return error;
  if (const auto error = options.symmetric ? caller->prepare() : ripc::Error(); !error.ok()) return error;
  while (side.control.receive()) {
    if (!side.control.send({})) break;  // ready
    if (const auto error = caller->accompany(); !error.ok()) return error;
  }
  return {};
}

BenchResult measure_calls(Side& side, const BenchOptions& options) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  // The calls of a window begin when the last one is answered, but its memory may be lent for longer.
  if (options.symmetric && library->kind == "long")
    return ripc::Error(RIPC_INVALID_ARGUMENT,
                       "--symmetric takes payloads that fit into a packet: use a smaller --size.");
  std::unique_ptr<Caller> caller;
  auto rpc = make_endpoint(*library, options);
  if (!rpc.ok()) return rpc.error();
  caller = std::make_unique<Caller>(side, options, *library, *rpc);
  if (const auto error = options.symmetric ? caller->answer() : ripc::Error(); !error.ok()) return error;
  if (const auto error = caller->prepare(); !error.ok()) return error;
  std::vector<double> samples;
  samples.reserve(options.iterations);
  const std::uint64_t warm_up = std::max<std::uint64_t>(options.iterations / 20, 1);
  if (const auto warm = caller->block(warm_up, samples); !warm.ok()) return warm.error();
  samples.clear();
  const std::uint64_t before = caller->answered();
  const auto nanoseconds = caller->block(options.iterations, samples);
  if (!nanoseconds.ok()) return nanoseconds.error();
  Json json;
  json["travels"] = library->kind;
  json["window"] = options.window;
  if (options.symmetric) {
    json["symmetric"] = true;
    json["callers"] = options.callers;
  }
  json["answer"] = options.answer;
  const double rate = static_cast<double>(caller->answered() - before) * 1e9 / std::max(*nanoseconds, 1.0);
  json["rtt_ns"] = percentiles(samples);
  json["calls_per_second"] = rate;
  json["bytes_per_second"] = rate * static_cast<double>(options.size + options.answer);
  caller->put(json);
  return json;
}

}  // namespace

BenchResult run_calls(const BenchOptions& options) {
  if (under_way_at_most(options) > RIPC_RPC_MAX_SLOTS)
    return ripc::Error(RIPC_INVALID_ARGUMENT,
                       "At most " + std::to_string(RIPC_RPC_MAX_SLOTS) +
                           " calls can be under way: use fewer --callers, or a smaller --window.");
  BenchOptions actual = options;
  actual.kind = "auto";
  actual.answer = std::min(options.answer, options.size);
  // A queue that is full costs a wake for each half of it: there is room for all requests and answers.
  constexpr std::uint64_t kDefaultQueue = 128;
  actual.queue_messages =
      static_cast<std::uint32_t>(std::max(kDefaultQueue, std::bit_ceil(2 * under_way_at_most(options))));
  if (actual.iterations == 0) {
    const std::uint64_t by_size = (std::uint64_t{4} << 30) / std::max<std::uint64_t>(options.size, 1);
    actual.iterations = std::clamp<std::uint64_t>(by_size, 50, options.transport == "shm" ? 500'000 : 50'000);
  }
  return run_pair(
      actual, [&](Side& side) { return calls_side(side, actual); },
      [&](Side& side) { return measure_calls(side, actual); });
}

}  // namespace cli::bench
