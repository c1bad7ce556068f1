// SPDX-License-Identifier: Apache-2.0
#include "file/fetch.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace cli::file {

using ripc::ItemView;
using ripc::Message;

FetchReport Fetch::run() {
  const std::uint64_t started = monotonic_now();
  connection_.progress();
  constexpr int kMaxReopens = 5;
  int reopens = 0;
  Step step = Step::again;
  if (const ripc::Error error = connection_.find(); !error.ok()) step = fail(exit_code_for(error.code()), error.text());
  while (step == Step::again || step == Step::reopen) {
    if (step == Step::reopen && ++reopens > kMaxReopens) {
      step = refuse(FileStatus::changed);
      break;
    }
    step = open();
  }
  report_.nanoseconds = monotonic_now() - started;
  report_.transport = step == Step::done ? connection_.transport() : connection_.info().transport;
  if (step == Step::done) report_.rails = connection_.carried();
  return report_;
}

std::uint64_t Fetch::length_of(std::uint64_t index) const noexcept {
  return std::min(options_.chunk, size_ - offset_of(index));
}

// Asks what the file is, then gets the content. This is also the way back into a transfer that lost something. The
// service answers in order, and no window is posted now. So when this reply arrives, all late replies to abandoned
// requests have already come, and none of them can take a window of later requests.
Fetch::Step Fetch::open() {
  RequestHeader request;
  request.flags = static_cast<std::uint16_t>((options_.verify ? RequestHeader::kWantDigest : 0) |
                                             (options_.return_buffer ? RequestHeader::kNoInline : 0));
  request.request = connection_.next_request();
  Step step = settle(connection_.send(Operation::open, request, ripc::bytes_of(path_)));
  if (step != Step::done) return step;
  Message message;
  ReplyHeader header;
  do {
    step = settle(connection_.receive(message, header));
    if (step != Step::done) return step;
  } while (header.request != request.request);
  connection_.progress();
  if (message.tag() != static_cast<std::uint32_t>(FileStatus::ok))
    return refuse(static_cast<FileStatus>(message.tag()));

  const bool is_resumed = completed_ > 0 && header.version == version_ && header.size == size_;
  if (!is_resumed) {
    size_ = header.size;
    version_ = header.version;
    completed_ = 0;
    report_.chunks = 0;
    report_.travelled.clear();
    // What comes in the answer is one piece, whatever its size.
    const std::uint64_t piece = std::max<std::uint64_t>(options_.chunk, message.item(1).bytes().size());
    if (const ripc::Error error = output_.prepare(size_, piece); !error.ok()) return fail(kFailure, error.text());
  }
  if (size_ == 0 || (!is_resumed && message.item_count() == 2)) {
    step = take_inline(message, header);
  } else {
    message.release();
    step = transfer();
  }
  if (step != Step::done) return step;
  if (const ripc::Error error = output_.finish(); !error.ok()) return fail(kFailure, error.text());
  report_.bytes = size_;
  report_.verified = options_.verify;
  return Step::done;
}

// The whole file is in the reply to the first request.
Fetch::Step Fetch::take_inline(const Message& message, const ReplyHeader& header) {
  const ripc::Bytes content = message.item(1).bytes();
  if (content.size() != size_) return fail(kMismatch, "The service sent another size than it announced.");
  if (size_ > 0) {
    const ripc::WritableBytes memory = output_.memory(0, size_);
    std::memcpy(memory.data(), content.data(), content.size());
    if (!check_digest(header, memory)) return fail(kMismatch, "The checksum of the content is wrong.");
  }
  note_travelled("short");
  const ripc::Error error = output_.complete(0, size_);
  return error.ok() ? Step::done : fail(kFailure, error.text());
}

// Keeps requests for two chunks under way. Replies come in the order of the requests. After anything else, nothing is
// outstanding and open() begins anew, with the first missing chunk.
Fetch::Step Fetch::transfer() {
  Progress progress(path_, options_.progress);
  while (completed_ < chunk_count()) {
    Step step = Step::done;
    while (step == Step::done && pending_.size() < kChunksAtOnce && completed_ + pending_.size() < chunk_count())
      step = request_chunk(completed_ + pending_.size());
    Message message;
    ReplyHeader header;
    bool is_late = false;
    if (step == Step::done) {
      const Connection::Outcome outcome = connection_.receive(message, header);
      is_late = outcome == Connection::Outcome::late;
      step = settle(outcome);
    }
    if (step == Step::done) step = take_reply(message, header);
    message.release();
    progress.update(std::min(offset_of(completed_), size_), size_);
    if (step == Step::done) continue;
    const Step given_up = give_up_pending();
    if (is_late) ask_for_less();
    return given_up == Step::failed && step != Step::failed ? given_up : step;
  }
  return Step::done;
}

Fetch::Step Fetch::request_chunk(std::uint64_t index) {
  RequestHeader request;
  request.flags = options_.verify ? RequestHeader::kWantDigest : std::uint16_t{0};
  request.request = connection_.next_request();
  request.version = version_;
  request.offset = offset_of(index);
  request.length = length_of(index);
  const ripc::WritableBytes memory = output_.memory(request.offset, request.length);

  pending_.push_back({request.request, index, false, 0, connection_.info().incarnation});
  Pending& pending = pending_.back();
  ripc::SendOptions options;
  const ripc::ReturnBuffer buffer = ripc::return_buffer(memory);
  if (options_.return_buffer) {
    options.returns = std::span(&buffer, 1);
    options.request_id = &pending.return_request;
  } else {
    if (const ripc::Error error = connection_.service().post_window(memory, request.request); !error.ok())
      return fail(kFailure, error.text());
    pending.has_window = true;
  }
  return settle(connection_.send(Operation::fetch, request, ripc::bytes_of(path_), options));
}

Fetch::Step Fetch::take_reply(Message& message, const ReplyHeader& header) {
  const ItemView content = message.item(1);
  if (content.kind() == RIPC_VIEW_WINDOW) {
    for (Pending& pending : pending_)
      if (pending.request == content.cookie()) pending.has_window = false;
  }
  if (pending_.empty() || header.request != pending_.front().request) {
    // This is a late answer to an abandoned request, from a service that is dead by now. If it took a window of a newer
    // request, that request must be repeated.
    return content.kind() == RIPC_VIEW_WINDOW ? Step::again : Step::done;
  }
  const FileStatus status = static_cast<FileStatus>(message.tag());
  if (status == FileStatus::changed) return Step::reopen;
  if (status != FileStatus::ok) return refuse(status);
  const Pending pending = pending_.front();
  const Step step = take_content(message, header, pending);
  if (step != Step::done) return step;
  message.release();  // the end of the library's right to the memory
  pending_.pop_front();
  connection_.progress();
  ++completed_;
  const ripc::Error error = output_.complete(offset_of(pending.index), length_of(pending.index));
  return error.ok() ? Step::done : fail(kFailure, error.text());
}

Fetch::Step Fetch::take_content(const Message& message, const ReplyHeader& header, const Pending& pending) {
  const ItemView content = message.item(1);
  const std::uint64_t length = length_of(pending.index);
  if (header.length != length || header.offset != offset_of(pending.index) || content.size() != length)
    return fail(kMismatch, "The service sent another piece of the file than was asked for.");
  const ripc::WritableBytes memory = output_.memory(offset_of(pending.index), length);
  switch (content.kind()) {
    case RIPC_VIEW_WINDOW:
      if (content.cookie() != pending.request) return Step::again;
      note_travelled("long");
      break;
    case RIPC_VIEW_RETURNED:
      note_travelled("return");
      break;
    case RIPC_VIEW_SHORT:
      std::memcpy(memory.data(), content.bytes().data(), length);
      note_travelled("short");
      break;
    default:
      return content_failed(content);
  }
  if (!check_digest(header, memory)) return fail(kMismatch, "The checksum of the content is wrong.");
  ++report_.chunks;
  failures_ = 0;
  return Step::done;
}

// The content was lost on the way: the service died, or its memory went away, or the path to it does not work at all.
Fetch::Step Fetch::content_failed(const ItemView& content) {
  constexpr unsigned kMaxFailures = 10;
  if (++failures_ > kMaxFailures) {
    const ripc_status status = content.ok() ? RIPC_CORRUPT : content.status();
    return fail(exit_code_for(status), "The content does not arrive: " + std::string(ripc_status_text(status)));
  }
  ++report_.retries;
  if (content.status() == RIPC_NO_WINDOW) options_.return_buffer = false;  // the service could not write: pull
  // Nothing is being pulled into its window now; whether the window is still posted or used up does not matter.
  Pending& pending = pending_.front();
  if (std::exchange(pending.has_window, false)) (void)connection_.service().withdraw_windows(pending.request);
  return Step::again;
}

// Takes back the windows and return buffers of outstanding requests. When it returns, the library uses none of them.
Fetch::Step Fetch::give_up_pending() {
  ripc::Service& service = connection_.service();
  const auto take_back = [&](Pending& pending) {
    if (pending.return_request != 0) (void)service.cancel_request(std::exchange(pending.return_request, 0));
    if (!pending.has_window) return true;
    const auto count = service.withdraw_windows(pending.request);
    return count.ok() && *count > 0;
  };
  constexpr std::uint64_t kPatience = 5'000'000'000;
  constexpr std::uint64_t kDeadPatience = 200'000'000;
  const std::uint64_t started = monotonic_now();
  while (true) {
    std::erase_if(pending_, take_back);
    if (pending_.empty()) return Step::done;
    // A message is being pulled into this window, which ends with the message, or with the death of its sender.
    auto message = service.receive(std::chrono::milliseconds(10));
    for (std::size_t index = 0; message.ok() && index < message->item_count(); ++index) {
      const ItemView view = message->item(index);
      if (view.kind() != RIPC_VIEW_WINDOW) continue;
      for (Pending& pending : pending_)
        if (pending.request == view.cookie()) pending.has_window = false;
    }
    const std::uint64_t waited = monotonic_now() - started;
    const auto is_dead = [&](const Pending& pending) {
      return pending.incarnation != connection_.info().incarnation || connection_.has_moved();
    };
    if (waited > kDeadPatience) std::erase_if(pending_, is_dead);
    if (waited > kPatience && !pending_.empty() && connection_.out_of_patience())
      return fail(kFailure, "A transfer that was given up keeps its window: restart the service.");
  }
}

// The network may be too slow for pieces of this size. The part that is already there stays a whole number of pieces.
void Fetch::ask_for_less() {
  constexpr std::uint64_t kParts = 8;
  constexpr std::uint64_t kLeast = std::uint64_t{1} << 20;
  const std::uint64_t smaller = options_.chunk / kParts;
  if (smaller < kLeast || options_.chunk % kParts != 0) return;
  options_.chunk = smaller;
  completed_ *= kParts;
}

// What an outcome of the connection means here; finds the service again if it was lost.
Fetch::Step Fetch::settle(Connection::Outcome outcome) {
  if (outcome == Connection::Outcome::done) return Step::done;
  if (outcome == Connection::Outcome::failed)
    return fail(exit_code_for(connection_.error().code()), connection_.error().text());
  ++report_.retries;
  if (const ripc::Error error = connection_.find(); !error.ok()) return fail(exit_code_for(error.code()), error.text());
  return Step::again;
}

Fetch::Step Fetch::refuse(FileStatus status) {
  return fail(kRefused, "'" + path_ + "': " + std::string(to_text(status)));
}

Fetch::Step Fetch::fail(int exit_code, std::string_view sentence) {
  report_.exit_code = exit_code;
  report_.error = sentence;
  return Step::failed;
}

bool Fetch::check_digest(const ReplyHeader& header, ripc::Bytes content) {
  if (!options_.verify) return true;
  if ((header.flags & ReplyHeader::kHasDigest) == 0) return false;
  const auto digest = digest_of(content);
  report_.digest.clear();
  if (content.size() == size_) {
    constexpr char kDigits[] = "0123456789abcdef";
    for (const std::byte byte : digest) {
      report_.digest += kDigits[std::to_integer<unsigned>(byte) >> 4];
      report_.digest += kDigits[std::to_integer<unsigned>(byte) & 15];
    }
  }
  return digest == header.digest;
}

void Fetch::note_travelled(const char* how) {
  if (report_.travelled.empty()) report_.travelled = how;
  if (report_.travelled != how) report_.travelled = "mixed";
}

}  // namespace cli::file
