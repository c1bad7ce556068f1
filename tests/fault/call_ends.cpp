// SPDX-License-Identifier: Apache-2.0
#include "call_ends.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <utility>

namespace fault {
namespace {

constexpr std::uint32_t kMethod = 1;
constexpr std::uint32_t kHold = 2;
constexpr std::uint32_t kRelease = 3;
constexpr std::size_t kUnderWay = 16;
// Sizes of the item that some calls send and get back in a return buffer: written there, or carried by the answer.
constexpr std::size_t kLarge = 100'000;
constexpr std::size_t kSmall = 1000;

using Bytes = std::vector<std::byte>;

ripc_rpc* make_rpc(const Service& service) {
  ripc_rpc* made = nullptr;
  EXPECT_EQ(ripc_rpc_create(service.get(), nullptr, &made), RIPC_OK) << ripc_last_error();
  return made;
}

bool is_large(std::uint64_t call) { return call % 50 == 3; }
Bytes large_part_of(std::uint64_t call) {
  return Bytes(call % 100 == 3 ? kLarge : kSmall, static_cast<std::byte>(call * 31));
}

std::string description(const ripc_call_result& result) {
  std::string text = std::to_string(result.item_count) + " items";
  for (const ripc_item_view& view : std::span(result.items, result.item_count))
    text += ", " + std::to_string(view.size) + " B of kind " + std::to_string(view.kind) + " with " +
            ripc_status_name(static_cast<ripc_status>(view.status));
  return text;
}

// What the server knows about its calls.
struct Requests {
  CallLog log;
  std::deque<ripc_request*> later = {};
  std::deque<ripc_request*> held = {};

  static std::uint64_t number_of(ripc_request* request) {
    ripc_item_view view;
    std::uint64_t number = 0;
    if (ripc_request_get_item(request, 0, &view) == RIPC_OK && view.size == sizeof number)
      std::memcpy(&number, view.data, sizeof number);
    return number;
  }
  static void answer(ripc_request* request) {
    const std::uint64_t answer = ~number_of(request);
    ripc_item items[] = {{&answer, sizeof answer, RIPC_ITEM_AUTO, 0}, {}};
    ripc_item_view large;
    const std::size_t count = ripc_request_get_item_count(request);
    if (count == 2 && ripc_request_get_item(request, 1, &large) == RIPC_OK)
      items[1] = {large.data, large.size, RIPC_ITEM_RETURN, 0};
    if (ripc_request_reply(request, 0, items, count, nullptr) != RIPC_OK) ripc_request_drop(request, RIPC_CANCELLED);
  }
  std::uint64_t note(ripc_request* request) {
    const std::uint64_t number = number_of(request);
    ++log.of(number % CallLog::kMaxCalls);
    return number;
  }
  static void handle(void* user, ripc_request* request) {
    auto& self = *static_cast<Requests*>(user);
    const std::uint64_t number = self.note(request);
    if (number % 50 == 7) return ripc_request_drop(request, RIPC_PERMISSION);
    if (number % 5 != 0) return answer(request);
    self.later.push_back(request);
    if (self.later.size() < 3) return;
    answer(self.later.front());
    self.later.pop_front();
  }
  static void hold(void* user, ripc_request* request) {
    auto& self = *static_cast<Requests*>(user);
    (void)self.note(request);
    self.held.push_back(request);
  }
  static void release(void* user, ripc_request* request) {
    auto& self = *static_cast<Requests*>(user);
    (void)self.note(request);
    for (auto* const list : {&self.later, &self.held}) {
      for (ripc_request* const one : std::exchange(*list, {})) answer(one);
    }
    answer(request);
  }
};

}  // namespace

CallLog::CallLog(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT, 0600);
  EXPECT_EQ(::ftruncate(fd, kMaxCalls), 0);
  void* const memory = ::mmap(nullptr, kMaxCalls, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  EXPECT_NE(memory, MAP_FAILED);
  ::close(fd);
  of_calls_ = static_cast<std::atomic<std::uint8_t>*>(memory);
}

CallLog::~CallLog() { ::munmap(static_cast<void*>(of_calls_), kMaxCalls); }

bool is_true(ripc_call_outcome outcome, int runs) {
  return outcome == RIPC_CALL_ANSWERED ? runs == 1 : runs <= (outcome == RIPC_CALL_DID_NOT_RUN ? 0 : 1);
}

int call_server(const std::vector<std::string>& arguments) {
  Requests requests{CallLog(arguments.at(2))};
  const Context context = make_context(arguments.at(0), 0, arguments.at(1).c_str());
  if (!context) return 1;
  const Service service = make_service(context, kServer, [](ripc_service_options& options) { options.takeover = 1; });
  if (!service) return 1;
  const std::unique_ptr<ripc_rpc, support::Release<ripc_rpc_destroy>> rpc(make_rpc(service));
  for (const auto& [method, handler] : {std::pair{kMethod, &Requests::handle}, std::pair{kHold, &Requests::hold},
                                        std::pair{kRelease, &Requests::release}}) {
    if (ripc_rpc_handle(rpc.get(), method, 0, handler, &requests) != RIPC_OK) return 1;
  }
  ripc_status status = RIPC_OK;
  while (status == RIPC_OK) status = ripc_rpc_run(rpc.get(), RIPC_FOREVER, nullptr);
  for (const auto* list : {&requests.later, &requests.held}) {
    for (ripc_request* const request : *list) ripc_request_drop(request, RIPC_CANCELLED);
  }
  return status == RIPC_FENCED ? kIsFenced : 1;
}

// ---- The client --------------------------------------------------------------------------------------------------

Caller::Caller(const Context& context, ripc_service_id id, CallLog* told, std::uint64_t first)
    : told_(told), first_(first), service_(make_service(context, id)), rpc_(make_rpc(service_)) {}

void Caller::run(std::uint64_t timeout) {
  while (under_way_ < kUnderWay && first_ + ends_.size() < CallLog::kMaxCalls - 1) begin_any(timeout);
  (void)ripc_rpc_run(rpc_.get(), kMillisecond, nullptr);
}

bool Caller::settle() {
  return eventually([this] {
    (void)ripc_rpc_run(rpc_.get(), kMillisecond, nullptr);
    return under_way_ == 0;
  });
}

const Caller::End& Caller::hold(std::uint64_t timeout) { return begin_plain(kHold, timeout); }

const Caller::End& Caller::hold_large(std::uint64_t timeout, std::size_t bytes) {
  End& end = add();
  const Bytes large(bytes);
  const ripc_item items[] = {{&end.number, sizeof end.number, RIPC_ITEM_AUTO, 0},
                             {large.data(), large.size(), RIPC_ITEM_AUTO, 0}};
  begin(end, kHold, items, timeout);
  return end;
}

const Caller::End& Caller::release(std::uint64_t timeout) { return begin_plain(kRelease, timeout); }

ripc_rpc_statistics Caller::statistics() const {
  ripc_rpc_statistics statistics;
  ripc_rpc_statistics_init(&statistics);
  EXPECT_EQ(ripc_rpc_get_statistics(rpc_.get(), &statistics), RIPC_OK);
  return statistics;
}

std::string Caller::flaw(CallLog& log) const {
  for (std::size_t call = 0; call < ends_.size(); ++call) {
    const End& end = ends_[call];
    const int runs = log.of(end.number);
    if (end.times == 1 && end.is_right && is_true(end.outcome, runs)) continue;
    return "call " + std::to_string(call) + " ran " + std::to_string(runs) + " times, ended " +
           std::to_string(end.times) + " times with outcome " + std::to_string(end.outcome) + ", " +
           ripc_status_name(end.status) + (end.is_right ? "" : ", wrong answer: " + end.answer);
  }
  return "";
}

Caller::End& Caller::add() {
  End& end = ends_.emplace_back(End{this, first_ + ends_.size()});
  if (told_ != nullptr) told_->of(end.number) = kBegun;
  return end;
}

void Caller::begin(End& end, std::uint32_t method, std::span<const ripc_item> arguments, std::uint64_t timeout) {
  const ripc_return_buffer buffer{end.large.data(), end.large.size()};
  ripc_call_options options;
  ripc_call_options_init(&options);
  options.timeout = timeout;
  options.returns = &buffer;
  options.return_count = end.large.empty() ? 0 : 1;
  ++under_way_;
  ASSERT_EQ(ripc_rpc_call(rpc_.get(), kServer, method, arguments.data(), arguments.size(), &options, &Caller::done,
                          &end, nullptr),
            RIPC_OK)
      << ripc_last_error();
}

const Caller::End& Caller::begin_plain(std::uint32_t method, std::uint64_t timeout) {
  End& end = add();
  const ripc_item number{&end.number, sizeof end.number, RIPC_ITEM_AUTO, 0};
  begin(end, method, {&number, 1}, timeout);
  return end;
}

void Caller::begin_any(std::uint64_t timeout) {
  End& end = add();
  const Bytes large = is_large(end.number) ? large_part_of(end.number) : Bytes();
  const ripc_item arguments[] = {{&end.number, sizeof end.number, RIPC_ITEM_AUTO, 0},
                                 {large.data(), large.size(), RIPC_ITEM_AUTO, 0}};
  end.large.resize(large.size());
  begin(end, kMethod, std::span(arguments).first(large.empty() ? 1 : 2), timeout);
}

void Caller::done(void* user, const ripc_call_result* result) {
  End& end = *static_cast<End*>(user);
  ++end.times;
  end.outcome = static_cast<ripc_call_outcome>(result->outcome);
  end.status = static_cast<ripc_status>(result->status);
  if (result->outcome == RIPC_CALL_ANSWERED) {
    const std::uint64_t expected = ~end.number;
    end.is_right = result->item_count == (end.large.empty() ? 1 : 2) && result->items[0].size == sizeof expected &&
                   std::memcmp(result->items[0].data, &expected, sizeof expected) == 0;
    if (!end.large.empty() && end.is_right) {
      // A large part is lent if the path to the former server had ended when it wrote the return buffer.
      const ripc_item_view& view = result->items[1];
      const Bytes expected_part = large_part_of(end.number);
      const bool is_back = view.kind == RIPC_VIEW_RETURNED && view.data == end.large.data();
      const bool is_lent = view.kind == RIPC_VIEW_LENT && view.size == kLarge;
      end.is_right = (is_back || is_lent) && view.size == expected_part.size() &&
                     std::memcmp(view.data, expected_part.data(), view.size) == 0;
    }
  }
  if (!end.is_right) end.answer = description(*result);
  end.large = Bytes();
  ripc_message_release(result->message);
  if (CallLog* const told = end.caller->told_) told->of(end.number) = static_cast<std::uint8_t>(kEnded + end.outcome);
  --end.caller->under_way_;
  ++end.caller->counts_[end.outcome];
}

}  // namespace fault
