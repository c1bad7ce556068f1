// SPDX-License-Identifier: Apache-2.0
#include "file/file_server.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <string>
#include <string_view>

#include "output.hpp"

namespace cli::file {

using ripc::Item;
using ripc::ItemView;
using ripc::Message;

namespace {

// The largest file that comes in the answer. A larger one is pulled, over all rails.
constexpr std::uint64_t kMostInline = std::uint64_t{128} << 10;

}  // namespace

void FileServer::handle(const Message& message) {
  ++counters_.requests;
  if (message.tag() == static_cast<std::uint32_t>(Operation::ping)) {
    std::array<Item, RIPC_MAX_ITEMS> items;
    const std::size_t count = std::min<std::size_t>(message.item_count(), items.size());
    for (std::size_t index = 0; index < count; ++index) items[index] = ripc::short_item(message.item(index).bytes());
    send(message, message.tag(), std::span(items).first(count));
    return;
  }
  const ItemView first = message.item(0);
  const auto request = first.kind() == RIPC_VIEW_SHORT ? decode_request(first.bytes()) : std::nullopt;
  if (!request || message.item_count() != 2 || message.item(1).kind() != RIPC_VIEW_SHORT)
    return refuse(message, request ? request->request : 0, FileStatus::bad_request);
  switch (static_cast<Operation>(message.tag())) {
    case Operation::open:
      return open(message, *request);
    case Operation::fetch:
      return fetch(message, *request);
    case Operation::subscribe:
      return subscribe(message, *request);
    case Operation::ping:
      break;
  }
  refuse(message, request->request, FileStatus::bad_request);
}

void FileServer::open(const Message& message, const RequestHeader& request) {
  OpenFile file;
  if (const FileStatus status = directory_.open_file(message.item(1).text(), file); status != FileStatus::ok)
    return refuse(message, request.request, status);
  ReplyHeader header;
  header.request = request.request;
  header.version = file.version;
  header.size = file.size;
  const auto limit = service_.short_limit(message.source(), 2);
  bool is_inline = (request.flags & RequestHeader::kNoInline) == 0 && limit.ok() && file.size <= kMostInline &&
                   *limit >= ReplyHeader::kSize && file.size <= *limit - ReplyHeader::kSize;
  small_.clear();
  if (is_inline) {
    small_.resize(file.size);
    FileStatus status = read_exactly(file.descriptor.get(), small_, 0);
    if (status == FileStatus::ok) status = ServedDirectory::refresh(file);
    if (status != FileStatus::ok && status != FileStatus::changed) return refuse(message, request.request, status);
    // If the file was written meanwhile, the bytes may be of two versions. Requests for pieces start anew then.
    is_inline = status == FileStatus::ok && file.version == header.version;
  }
  if (is_inline) {
    header.length = header.size;
    if ((request.flags & RequestHeader::kWantDigest) != 0) {
      header.flags = ReplyHeader::kHasDigest;
      header.digest = digest_of(small_);
    }
    ++counters_.files_inline;
    counters_.bytes += header.size;
  }
  const auto head = encode(header);
  const std::array<Item, 2> items = {ripc::short_item(head), ripc::short_item(small_)};
  send(message, static_cast<std::uint32_t>(FileStatus::ok), std::span(items).first(is_inline ? 2 : 1));
}

void FileServer::fetch(const Message& message, const RequestHeader& request) {
  OpenFile file;
  if (const FileStatus status = directory_.open_file(message.item(1).text(), file); status != FileStatus::ok)
    return refuse(message, request.request, status);
  if (file.version != request.version) return refuse(message, request.request, FileStatus::changed);
  if (request.length == 0 || request.length > kMaxChunk || request.offset > file.size ||
      request.length > file.size - request.offset)
    return refuse(message, request.request, FileStatus::bad_request);

  const bool with_digest = (request.flags & RequestHeader::kWantDigest) != 0;
  const ChunkCache::Chunk* chunk = nullptr;
  if (const FileStatus status = cache_.get(file, request.offset, request.length, with_digest, chunk);
      status != FileStatus::ok)
    return refuse(message, request.request, status);
  ReplyHeader header;
  header.request = request.request;
  header.version = file.version;
  header.size = file.size;
  header.offset = request.offset;
  header.length = request.length;
  if (with_digest && chunk->digest) {
    header.flags = ReplyHeader::kHasDigest;
    header.digest = *chunk->digest;
  }
  const auto head = encode(header);
  const ripc::Bytes content = chunk->buffer.bytes();
  const std::array<Item, 2> items = {
      ripc::short_item(head), message.return_count() > 0 ? ripc::return_item(content, 0) : ripc::borrow(content)};
  ++counters_.chunks;
  counters_.bytes += request.length;
  send(message, static_cast<std::uint32_t>(FileStatus::ok), items);
}

void FileServer::subscribe(const Message& message, const RequestHeader& request) {
  const auto notification = decode_notification(message.item(1).bytes());
  if (!notification || notification->service != message.source())
    return refuse(message, request.request, FileStatus::bad_request);
  // One entry for each subscriber: one that asks again (its first request may have been lost) replaces its older entry.
  std::erase_if(subscribers_, [&](const ripc_notification& known) { return known.service == message.source(); });
  if (subscribers_.size() >= kMaxSubscribers) return refuse(message, request.request, FileStatus::limit);
  subscribers_.push_back(*notification);
  ReplyHeader header;
  header.request = request.request;
  const auto head = encode(header);
  send(message, static_cast<std::uint32_t>(FileStatus::ok), ripc::short_item(head));
}

void FileServer::notify_closing() {
  for (const ripc_notification& subscriber : subscribers_) {
    // Does not wait for a client that is gone, or has no room: watchers also check whether the service is still there.
    (void)service_.notify(subscriber, ripc::short_item("closing"));
  }
  subscribers_.clear();
}

void FileServer::refuse(const Message& message, std::uint64_t request, FileStatus status) {
  ++counters_.refused;
  ReplyHeader header;
  header.request = request;
  const auto head = encode(header);
  send(message, static_cast<std::uint32_t>(status), {ripc::short_item(head), ripc::short_item(to_text(status))});
}

void FileServer::send(const Message& message, std::uint32_t tag, const ripc::Items& items) {
  ripc::SendOptions options;
  options.tag = tag;
  options.timeout = std::chrono::seconds(60);
  look_at_tickets();
  // Does not wait long for a client that leaves its queue full; it asks again when it has room.
  constexpr std::uint64_t kPatience = 100'000'000;
  constexpr auto kSlice = std::chrono::milliseconds(10);
  const std::uint64_t started = monotonic_now();
  auto ticket = service_.reply(message, items, options);
  while (ticket.code() == RIPC_AGAIN && monotonic_now() - started < kPatience) {
    (void)service_.wait_room(message.source(), kSlice);
    look_at_tickets();
    ticket = service_.reply(message, items, options);
  }
  const ripc_status answered = ticket.code();
  if (answered != RIPC_OK) ++counters_.unanswered;
  if (answered == RIPC_OK && !ticket->empty()) tickets_.push_back(*std::move(ticket));
  if (verbose_) log(message, tag, answered);
}

void FileServer::look_at_tickets() {
  const auto is_over = [&](ripc::Ticket& ticket) {
    const ripc::Error status = ticket.poll();
    if (status == RIPC_PENDING) return false;
    if (!status.ok()) ++counters_.not_taken;
    return true;
  };
  // They end nearly in the order in which they began; the rest is checked only if a slow client is among them.
  while (!tickets_.empty() && is_over(tickets_.front())) tickets_.pop_front();
  if (tickets_.size() > kMaxTickets / 8) std::erase_if(tickets_, is_over);
  if (tickets_.size() > kMaxTickets) tickets_.pop_front();  // the library still sends it
}

void FileServer::log(const Message& message, std::uint32_t tag, ripc_status sent) const {
  const std::string path = printable(message.item(1).text());
  const bool is_ping = message.tag() == static_cast<std::uint32_t>(Operation::ping);
  const bool is_subscription = message.tag() == static_cast<std::uint32_t>(Operation::subscribe);
  const std::string_view what = is_ping ? "ping" : is_subscription ? "subscription" : std::string_view(path);
  const std::string_view answer = is_ping ? "Answered." : to_text(static_cast<FileStatus>(tag));
  std::fprintf(stderr, "ripc: 0x%016llx: %.*s: %.*s%s%s\n", static_cast<unsigned long long>(message.source()),
               static_cast<int>(what.size()), what.data(), static_cast<int>(answer.size()), answer.data(),
               sent == RIPC_OK ? "" : " Not sent: ", sent == RIPC_OK ? "" : ripc_status_text(sent));
}

}  // namespace cli::file
