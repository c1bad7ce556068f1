// SPDX-License-Identifier: Apache-2.0
// Large payloads one after the other, `depth` under way at once: pulled into windows, written into return buffers, or
// lent; of kind auto also in the messages, if they fit. Blocks of messages alternate with blocks of the baseline. In
// shared memory this is a plain memcpy of the same size, from lent views of the same sender buffers into the same
// landing memory; the library itself copies from the mapping of these views. For sockets, the same bytes travel between
// the same memory over a bare TCP connection.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "bench/options.hpp"
#include "bench/pair.hpp"
#include "bench/payload.hpp"
#include "bench/sockets.hpp"
#include "bench/tally.hpp"

namespace cli::bench {
namespace {

using ripc::Item;

enum StreamCommand : std::uint64_t { kStream = 1, kLend = 2, kStreamTcp = 3 };
constexpr auto kStreamPatience = std::chrono::seconds(10);
constexpr std::size_t kMostAtOnce = 16;  // messages that are received by one call

enum class Baseline { none, memcpy, tcp };
Baseline baseline_of(const BenchOptions& options) {
  if (options.kind == "lend") return Baseline::none;
  return options.transport == "socket" ? Baseline::tcp : Baseline::memcpy;
}

// ---- The sending side ----------------------------------------------------------------------------------------

struct FreeMemory {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

// One of the buffers that messages are sent from in turn. It is kept for the whole measurement, or obtained anew for
// every message, from the pool or from malloc, and then written whole.
struct Slot {
  ripc::Buffer lease;
  std::unique_ptr<std::byte, FreeMemory> heap;
  ripc::WritableBytes bytes;
  ripc::Ticket ticket;  // of the message last sent from it

  ripc::Error renew(ripc::Context& context, const BenchOptions& options, std::uint64_t index) {
    if (options.source == "malloc") {
      heap.reset();
      heap.reset(static_cast<std::byte*>(std::malloc(options.size)));
      if (!heap) return RIPC_NO_MEMORY;
      bytes = {heap.get(), options.size};
    } else {
      lease.release();
      auto fresh = context.lease(options.size);
      if (!fresh.ok()) return fresh.error();
      lease = *std::move(fresh);
      bytes = lease.bytes();
    }
    prepare_large(bytes, index);
    return {};
  }
};

// Prepares the slot of a message, after the last message sent from it is complete.
ripc::Error prepare(Library& library, const BenchOptions& options, std::vector<Slot>& slots, std::uint64_t sequence) {
  Slot& slot = slots[sequence % slots.size()];
  if (const auto error = slot.ticket.wait(kStreamPatience); !error.ok()) return error;
  return options.source == "kept" ? ripc::Error() : slot.renew(library.context, options, sequence % slots.size());
}

// Sends as many messages in one call as there are slots whose messages are complete, but no more than were ordered.
ripc::Error send_longs(Library& library, const BenchOptions& options, std::vector<Slot>& slots, const Order& order) {
  ripc::SendOptions send_options;
  send_options.timeout = ripc::kForever;  // a lent view is held as long as the measurement likes
  const std::size_t most = std::min<std::size_t>(options.batch != 0 ? options.batch : slots.size(), slots.size());
  std::vector<Item> items(most);
  std::vector<ripc::OutgoingMessage> messages(most);
  std::vector<ripc::Ticket> tickets(most);
  const auto slot_of = [&](std::uint64_t sequence) -> Slot& { return slots[sequence % slots.size()]; };
  const std::uint64_t end = order.first + order.count;
  for (std::uint64_t sequence = order.first; sequence < end;) {
    std::size_t count = 0;
    do {
      if (const auto error = prepare(library, options, slots, sequence + count); !error.ok()) return error;
      const ripc::WritableBytes bytes = slot_of(sequence + count).bytes;
      if (!options.one_buffer) write_large(bytes, sequence + count);
      items[count] = payload_item(options, bytes);
      messages[count] = ripc::outgoing_message({&items[count], 1});
      ++count;
    } while (count < most && sequence + count < end && slot_of(sequence + count).ticket.poll().code() != RIPC_PENDING);
    if (const auto error = send_many_patiently(library, std::span(messages).first(count), tickets, send_options);
        !error.ok())
      return error;
    for (std::size_t index = 0; index < count; ++index) slot_of(sequence++).ticket = std::move(tickets[index]);
  }
  return {};
}

ripc::Error send_replies(Library& library, const BenchOptions& options, std::vector<Slot>& slots, const Order& order) {
  for (std::uint64_t sequence = order.first; sequence < order.first + order.count; ++sequence) {
    if (const auto error = prepare(library, options, slots, sequence); !error.ok()) return error;
    Slot& slot = slots[sequence % slots.size()];
    auto request = library.service.receive(kStreamPatience);
    if (!request.ok()) return request.error();
    const std::uint64_t asked = sequence_of(request->item(0).bytes());
    write_large(slot.bytes, asked);
    const std::array<Item, 1> items = {ripc::return_item(slot.bytes, 0)};
    auto ticket = reply_patiently(library, *request, items);
    if (!ticket.ok()) return ticket.error();
    slot.ticket = *std::move(ticket);
  }
  return {};
}

ripc::Error send_stream(Library& library, const BenchOptions& options, std::vector<Slot>& slots, const Order& order) {
  if (options.one_buffer) write_large(slots.front().bytes, order.first);
  const auto send = options.kind == "return" ? send_replies : send_longs;
  if (const auto error = send(library, options, slots, order); !error.ok()) return error;
  for (Slot& slot : slots)
    if (const auto error = slot.ticket.wait(kStreamPatience); !error.ok()) return error;
  return {};
}

ripc::Error stream_side(Side& side, const BenchOptions& options, const SocketPair& sockets) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  std::vector<Slot> slots(options.depth);
  std::vector<ripc::Ticket> lent;  // released with the views, at the end
  for (std::size_t index = 0; index < slots.size(); ++index) {
    if (options.one_buffer && index != 0) {
      slots[index].bytes = slots.front().bytes;
    } else if (const auto error = slots[index].renew(library->context, options, index); !error.ok()) {
      return error;
    }
  }
  while (const auto order = side.control.receive()) {
    const std::uint64_t started = processor_time();
    if (order->kind == kStreamTcp) {
      for (std::uint64_t index = 0; index < order->count; ++index)
        if (const auto error = send_stream(sockets, slots[index % slots.size()].bytes); !error.ok()) return error;
    } else if (order->kind == kLend) {
      ripc::SendOptions send_options;
      send_options.timeout = ripc::kForever;
      for (const Slot& slot : slots) {
        const std::array<Item, 1> items = {ripc::borrow(slot.bytes)};
        auto ticket = send_patiently(*library, items, send_options);
        if (!ticket.ok()) return ticket.error();
        lent.push_back(*std::move(ticket));
      }
    } else if (const auto error = send_stream(*library, options, slots, *order); !error.ok()) {
      return error;
    }
    if (!side.control.send({order->kind, processor_time() - started, 0})) break;
  }
  return {};
}

// ---- The measuring side --------------------------------------------------------------------------------------

// Where payloads land.
struct Landing {
  ripc::Buffer lease;
  std::vector<std::byte> heap;
  ripc::Registration registration;  // of `heap`
  ripc::WritableBytes bytes;
};

class Receiver {
 public:
  Receiver(Side& side, const BenchOptions& options, Library& library, const SocketPair& sockets)
      : side_(side), options_(options), library_(library), sockets_(sockets) {}

  ripc::Error make_landings() {
    // Windows for the messages under way, and for those received at once. While these are received, as many more are
    // sent, and a window is posted again only after its message was checked.
    windows_ = options_.depth + most_at_once();
    landings_.resize(options_.kind == "lend" ? 0 : options_.one_buffer ? 1 : windows_);
    for (Landing& landing : landings_) {
      if (options_.landing == "lease") {
        auto lease = library_.context.lease(options_.size);
        if (!lease.ok()) return lease.error();
        landing.lease = *std::move(lease);
        landing.bytes = landing.lease.bytes();
      } else {
        landing.heap.resize(options_.size);
        landing.bytes = landing.heap;
      }
      if (options_.landing == "registered") {
        auto registration = library_.context.register_memory(landing.bytes);
        if (!registration.ok()) return registration.error();
        landing.registration = *std::move(registration);
      }
    }
    return {};
  }

  // The views that memcpy is measured with.
  ripc::Error borrow_views() {
    if (!side_.control.send({kLend, options_.depth, 0})) return other_side_ended();
    for (std::uint64_t index = 0; index < options_.depth; ++index) {
      auto message = library_.service.receive(kStreamPatience, RIPC_RECEIVE_LEND);
      if (!message.ok()) return message.error();
      if (!message->item(0).ok()) return ripc::Error(message->item(0).status());
      is_lent_ = message->item(0).kind() == RIPC_VIEW_LENT && message->item(0).copied() == 0;
      views_.push_back(*std::move(message));
    }
    return side_.control.receive() ? ripc::Error() : other_side_ended();
  }

  // Bytes per second of `count` copies.
  double copy_block(std::uint64_t count) {
    const std::uint64_t start = monotonic_now();
    for (std::uint64_t index = 0; index < count; ++index) {
      const ripc::Bytes source = views_[index % views_.size()].item(0).bytes();
      std::memcpy(landing_of(index).data(), source.data(), source.size());
      asm volatile("" ::: "memory");
    }
    return per_second(count, monotonic_now() - start);
  }

  // Bytes per second for `count` + 1 payloads: the time runs from the end of the first to the end of the last.
  ripc::Result<double> tcp_block(std::uint64_t count) {
    const std::uint64_t processor_started = processor_time();
    if (!side_.control.send({kStreamTcp, count + 1, 0})) return other_side_ended();
    std::uint64_t start = 0;
    for (std::uint64_t index = 0; index <= count; ++index) {
      if (const auto error = receive_stream(sockets_, landing_of(index)); !error.ok()) return error;
      if (index == 0) start = monotonic_now();
    }
    const double rate = per_second(count, monotonic_now() - start);
    return finish_block(processor_started, count + 1) ? ripc::Result<double>(rate) : other_side_ended();
  }

  // Seconds of processor time of both sides for each GB (10^9 bytes), in the block measured last.
  double processor_seconds() const noexcept { return processor_seconds_; }

  // Messages per second, for a few more than `count` messages. The time runs from the end of the first batch to the end
  // of the last message. Long messages come in batches of as many as are under way, and so do the last.
  ripc::Result<double> message_block(std::uint64_t count) {
    const bool is_long = library_.kind == "long";
    if (options_.size > kSmall)
      for (const Landing& landing : landings_) std::fill(landing.bytes.begin(), landing.bytes.end(), std::byte{0});
    const std::uint64_t first = first_ = sequence_;
    const std::uint64_t together = is_long ? options_.depth : 1;
    const std::uint64_t total = together + (count + together - 1) / together * together;
    const std::uint64_t processor_started = processor_time();
    if (is_long)
      for (std::uint64_t index = 0; index < windows_; ++index)
        if (const auto error = post(first + index); !error.ok()) return error;
    if (!side_.control.send({kStream, total, first})) return other_side_ended();
    std::uint64_t requested = first;
    std::uint64_t start = 0;
    std::uint64_t before = 0;
    while (sequence_ < first + total) {
      while (options_.kind == "return" && requested < first + total && requested < sequence_ + options_.depth)
        if (const auto error = request(requested++); !error.ok()) return error;
      auto count_now = take(first + total - sequence_);
      if (!count_now.ok()) return count_now.error();
      const std::uint64_t came = sequence_;
      sequence_ += *count_now;
      if (came == first) {
        before = *count_now;
        start = monotonic_now();
      }
      // Windows for the messages after those that have theirs already; the last windows are not posted again.
      for (std::uint64_t next = came + windows_; next < sequence_ + windows_; ++next)
        if (is_long && next < first + total)
          if (const auto error = post(next); !error.ok()) return error;
    }
    const std::uint64_t duration = monotonic_now() - start;
    if (!finish_block(processor_started, total)) return other_side_ended();
    check_landed(first);
    // If a block has fewer messages than windows, some windows were not used.
    if (is_long)
      for (std::uint64_t index = 0; index < windows_; ++index) (void)library_.service.withdraw_windows(first + index);
    return static_cast<double>(total - before) * 1e9 / static_cast<double>(std::max<std::uint64_t>(duration, 1));
  }

  bool is_lent() const noexcept { return is_lent_; }
  const Tally& tally() const noexcept { return tally_; }

 private:
  // False if the other side has ended.
  bool finish_block(std::uint64_t processor_started, std::uint64_t messages) {
    const std::uint64_t own = processor_time() - processor_started;
    const auto other = side_.control.receive();
    if (!other) return false;
    processor_seconds_ = static_cast<double>(own + other->count) / static_cast<double>(messages * options_.size);
    return true;
  }
  double per_second(std::uint64_t count, std::uint64_t nanoseconds) const {
    return static_cast<double>(count) * static_cast<double>(options_.size) * 1e9 /
           static_cast<double>(std::max<std::uint64_t>(nanoseconds, 1));
  }
  // Otherwise the payload is checked in place.
  bool lands() const { return library_.kind == "long" || library_.kind == "return"; }
  std::size_t most_at_once() const { return std::min<std::size_t>(options_.depth, kMostAtOnce); }
  ripc::WritableBytes landing_of(std::uint64_t sequence) const { return landings_[sequence % landings_.size()].bytes; }

  // The sequence number that the sender has written into a message's buffer, and the index of that buffer.
  std::uint64_t written_of(std::uint64_t sequence) const { return options_.one_buffer ? first_ : sequence; }
  std::uint64_t slot_of(std::uint64_t sequence) const { return options_.one_buffer ? 0 : sequence % options_.depth; }

  ripc::Error post(std::uint64_t sequence) { return library_.service.post_window(landing_of(sequence), sequence); }

  ripc::Error request(std::uint64_t sequence) {
    const ripc::ReturnBuffer buffer = ripc::return_buffer(landing_of(sequence));
    ripc::SendOptions send_options;
    send_options.returns = std::span(&buffer, 1);
    const std::array<Item, 1> items = {ripc::short_item(std::as_bytes(std::span(&sequence, 1)))};
    return send_patiently(library_, items, send_options).error();
  }

  // Takes the messages that have come, at least one and at most `most`. Returns how many.
  ripc::Result<std::size_t> take(std::uint64_t most) {
    const bool is_lend = options_.kind == "lend";
    std::array<ripc::Message, kMostAtOnce> messages;
    auto count = library_.service.receive_many(std::span(messages).first(std::min<std::size_t>(most_at_once(), most)),
                                               kStreamPatience, is_lend ? std::uint32_t{RIPC_RECEIVE_LEND} : 0U);
    if (!count.ok()) return count;
    for (std::size_t index = 0; index < *count; ++index) check(messages[index].item(0), sequence_ + index);
    return count;
  }

  void check(const ripc::ItemView& view, std::uint64_t sequence) {
    if (!view.ok() || view.size() != options_.size) {
      ++tally_.lost;
      return;
    }
    tally_.check(check_large(view.bytes(), written_of(sequence)));
    constexpr std::uint64_t kSeenPerWhole = 64;
    if (!lands() && options_.size > kSmall && sequence % kSeenPerWhole == 0)
      tally_.check_whole(check_large_whole(view.bytes(), sequence, sequence % options_.depth));
  }

  // Checks the last messages of the block, which are still in the landing memory.
  void check_landed(std::uint64_t first) {
    if (options_.size <= kSmall || !lands()) return;
    const std::uint64_t count = std::min<std::uint64_t>(landings_.size(), sequence_ - first);
    for (std::uint64_t sequence = sequence_ - count; sequence < sequence_; ++sequence)
      tally_.check_whole(check_large_whole(landing_of(sequence), written_of(sequence), slot_of(sequence)));
  }

  Side& side_;
  const BenchOptions& options_;
  Library& library_;
  const SocketPair& sockets_;
  std::vector<Landing> landings_;
  std::vector<ripc::Message> views_;
  bool is_lent_ = false;
  double processor_seconds_ = 0;
  std::uint64_t windows_ = 0;  // posted at once
  std::uint64_t sequence_ = 0;
  std::uint64_t first_ = 0;  // of the block
  Tally tally_;
};

BenchResult measure_bandwidth(Side& side, const BenchOptions& options, const SocketPair& sockets) {
  auto library = open_library(side, options);
  if (!library.ok()) return library.error();
  Receiver receiver(side, options, *library, sockets);
  if (const auto error = receiver.make_landings(); !error.ok()) return error;
  const Baseline baseline = baseline_of(options);
  if (baseline == Baseline::memcpy)
    if (const auto error = receiver.borrow_views(); !error.ok()) return error;

  // Short blocks, because occasional disturbances by other programs hardly change their median.
  constexpr std::uint64_t kBlockBytes = std::uint64_t{32} << 20;
  constexpr std::uint64_t kMostBlocks = 200;
  constexpr std::uint64_t kFewestBlocks = 3;
  const std::uint64_t by_size = options.kind == "lend" ? 100 : kBlockBytes / options.size;
  const std::uint64_t per_block =
      std::max({std::min(by_size, options.iterations / kFewestBlocks), options.iterations / kMostBlocks,
                std::uint64_t{8}, std::min<std::uint64_t>(2 * options.depth, 2 * kMostAtOnce)});
  const std::uint64_t blocks = std::max(options.iterations / per_block, kFewestBlocks);
  std::vector<double> rates;
  std::vector<double> bare_rates;
  std::vector<double> ratios;
  std::vector<double> seconds;
  std::vector<double> bare_seconds;
  for (std::uint64_t block = 0; block <= blocks; ++block) {
    ripc::Result<double> bare = baseline == Baseline::memcpy ? receiver.copy_block(per_block) : 0.0;
    if (baseline == Baseline::tcp) bare = receiver.tcp_block(per_block);
    if (!bare.ok()) return bare.error();
    const double bare_processor = receiver.processor_seconds();
    auto rate = receiver.message_block(per_block);
    if (!rate.ok()) return rate.error();
    if (block == 0) continue;  // warm-up: mappings are made, pages are touched
    rates.push_back(*rate);
    seconds.push_back(receiver.processor_seconds());
    bare_seconds.push_back(bare_processor);
    bare_rates.push_back(*bare);
    if (baseline != Baseline::none) ratios.push_back(*rate * static_cast<double>(options.size) / *bare);
  }
  const double rate = median(rates);
  Json json;
  json["messages_per_second"] = rate;
  json["bytes_per_second"] = rate * static_cast<double>(options.size);
  json["nanoseconds_per_message"] = rate > 0 ? 1e9 / rate : 0.0;
  if (baseline == Baseline::memcpy) {
    json["memcpy_bytes_per_second"] = median(bare_rates);
    json["ratio_to_memcpy"] = median(ratios);
    json["memcpy_source"] = receiver.is_lent() ? "lent views of the sender's buffers" : "library memory";
  }
  if (baseline == Baseline::tcp) {
    json["tcp_bytes_per_second"] = median(bare_rates);
    json["ratio_to_tcp"] = median(ratios);
    json["processor_seconds_per_gigabyte"] = median(seconds);
    json["tcp_processor_seconds_per_gigabyte"] = median(bare_seconds);
  }
  json["depth"] = options.depth;
  json["batch"] = options.batch;
  json["one_buffer"] = options.one_buffer;
  json["source"] = options.source;
  json["landing"] = options.landing;
  json["blocks"] = blocks;
  receiver.tally().put(json);
  json["verification"] =
      options.size <= kSmall
          ? "every payload compared whole"
          : "every payload: the sequence number at both ends; in each block, outside of the timed part, the last "
            "payloads compared whole, in memory that was cleared before the block";
  if (options.one_buffer)
    json["verification"] =
        "every payload: the number of its block at both ends; in each block, outside of the timed part, the buffer "
        "compared whole, in memory that was cleared before the block";
  if ((options.kind == "lend" || library->kind == "short") && options.size > kSmall)
    json["verification"] = "every payload: the sequence number at both ends; every 64th compared whole";
  return json;
}

}  // namespace

BenchResult run_stream(const BenchOptions& options) {
  BenchOptions actual = options;
  if (actual.one_buffer && (actual.kind != "long" || actual.source != "kept"))
    return ripc::Error(RIPC_INVALID_ARGUMENT, "--one-buffer is for --kind long and --source kept.");
  if (actual.iterations == 0) {
    const std::uint64_t by_size = (std::uint64_t{8} << 30) / std::max<std::uint64_t>(options.size, 1);
    actual.iterations = std::clamp<std::uint64_t>(by_size, 100, options.wait == "spin" ? 100'000 : 20'000);
  }
  SocketPair sockets;
  if (baseline_of(actual) == Baseline::tcp)
    if (const auto error = sockets.open(); !error.ok()) return error;
  return run_pair(
      actual, [&](Side& side) { return stream_side(side, actual, sockets); },
      [&](Side& side) { return measure_bandwidth(side, actual, sockets); });
}

}  // namespace cli::bench
