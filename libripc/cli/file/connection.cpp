// SPDX-License-Identifier: Apache-2.0
#include "file/connection.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "rails.hpp"

namespace cli::file {
namespace {

constexpr auto kSlice = std::chrono::milliseconds(50);  // how soon a restart of the service is noticed
constexpr std::uint64_t kFirstReplyPatience = 5'000'000'000;
constexpr std::uint64_t kLongestReplyPatience = 60'000'000'000;

}  // namespace

Connection::Connection(ripc::Context& context, ripc::Service service, Target target, ripc::Nanoseconds patience,
                       bool wait_for_first)
    : context_(context),
      service_(std::move(service)),
      target_(std::move(target)),
      patience_(patience),
      seen_(wait_for_first),
      last_progress_(monotonic_now()),
      last_request_(last_progress_),
      reply_patience_(kFirstReplyPatience) {}

ripc::Error Connection::find() {
  cycle_began_ = monotonic_now();
  if (info_.id != 0 && out_of_patience()) return gone();
  auto info = target_.resolve(context_);
  if (!info.ok() && info.code() == RIPC_NO_SERVICE && seen_) {
    if (info_.id != 0) print_error("'" + target_.text + "' is gone; waiting for it to come back.");
    info = wait_for_service(context_, target_, time_left(last_progress_, patience_));
  }
  if (!info.ok()) {
    if (info.code() != RIPC_NO_SERVICE) return info.error();
    if (info_.id != 0) return gone();
    if (seen_) return info.error();  // by wait_for_service()
    return {RIPC_NO_SERVICE, "There is no living service '" + target_.text +
                                 "'; `ripc services` shows what is there, --timeout waits for it. " +
                                 std::string(info.error().text())};
  }
  info_ = *std::move(info);
  // The path is for display; if the service is moving just now, the send finds it.
  auto path = context_.find_path(info_.id);
  if (!path.ok() && another_would_be_late()) return path.error();  // a send would look for the path again
  if (path.ok()) info_ = *std::move(path);
  seen_ = true;
  return {};
}

ripc::Error Connection::gone() const {
  return {RIPC_NO_SERVICE, "'" + target_.text +
                               "' has ended or cannot be reached any more, and did not come back within --timeout. "
                               "Start it again, or check the network to its host."};
}

std::string Connection::transport() const {
  const auto path = context_.find_path(info_.id);
  return path.ok() ? path->transport : info_.transport;
}

std::vector<ripc::RailInfo> Connection::carried() {
  auto rails = context_.rails(info_.id);
  if (!rails.ok()) return {};
  return rails_since(std::exchange(rails_, *rails), *rails);
}

Connection::Outcome Connection::send(Operation operation, const RequestHeader& header, ripc::Bytes argument,
                                     const ripc::SendOptions& options) {
  ripc::SendOptions tagged = options;
  tagged.tag = static_cast<std::uint32_t>(operation);
  const auto head = encode(header);
  const std::array<ripc::Item, 2> items = {ripc::short_item(head), ripc::short_item(argument)};
  last_request_ = monotonic_now();
  while (true) {
    auto ticket = service_.send(info_.id, items, tagged);
    ripc::Error error = ticket.error();
    if (error == RIPC_AGAIN) {
      error = service_.wait_room(info_.id, kSlice);
      if (error.ok() || error == RIPC_TIMEOUT || error == RIPC_INTERRUPTED) {
        if (out_of_patience()) return fail({RIPC_TIMEOUT, "The service does not take requests: its queue stays full."});
        if (!error.ok() && has_moved()) return Outcome::lost;
        continue;
      }
    }
    switch (error.code()) {
      case RIPC_OK:
        return Outcome::done;
      case RIPC_NO_SERVICE:
      case RIPC_PEER_DEAD:
      case RIPC_CLOSED:
      case RIPC_TIMEOUT:
        if (another_would_be_late()) return fail(error);
        return Outcome::lost;
      default:
        return fail(error);
    }
  }
}

Connection::Outcome Connection::receive(ripc::Message& message, ReplyHeader& header) {
  while (true) {
    auto received = service_.receive(kSlice);
    if (received.ok()) {
      message = *std::move(received);
      const ripc::ItemView first = message.item(0);
      const auto decoded = first.kind() == RIPC_VIEW_SHORT ? decode_reply(first.bytes()) : std::nullopt;
      if (!decoded) {
        message.release();
        continue;
      }
      header = *decoded;
      answered_ = true;
      return Outcome::done;
    }
    if (received.code() != RIPC_TIMEOUT && received.code() != RIPC_EMPTY && received.code() != RIPC_INTERRUPTED)
      return fail(received.error());
    if (out_of_patience())
      return fail({RIPC_TIMEOUT, "'" + target_.text + "' has answered nothing for as long as --timeout allows. " +
                                     (answered_ ? "Is its process stopped, or the network to its host down?"
                                                : "Is it a file service (`ripc serve`), and is its process running "
                                                  "and not stopped?")});
    if (monotonic_now() - last_request_ > reply_patience_) {
      reply_patience_ = std::min(reply_patience_ * 2, kLongestReplyPatience);
      return has_moved() ? Outcome::lost : Outcome::late;
    }
    if (may_look() && has_moved()) return Outcome::lost;
  }
}

void Connection::progress() noexcept {
  last_progress_ = monotonic_now();
  last_request_ = last_progress_;
}

bool Connection::has_moved() {
  const auto now = target_.resolve(context_);
  return !now.ok() || now->incarnation != info_.incarnation || now->id != info_.id;
}

// Looking may take some time if other hosts have to be asked.
bool Connection::may_look() const noexcept {
  constexpr auto kLongestLook = std::chrono::seconds(1);
  return patience_ <= 2 * kLongestLook || time_left(last_progress_, patience_) > kLongestLook;
}

bool Connection::another_would_be_late() const noexcept {
  const std::uint64_t now = monotonic_now();
  return patience_ != ripc::kForever &&
         (now - last_progress_) + (now - cycle_began_) > static_cast<std::uint64_t>(patience_.count());
}

bool Connection::out_of_patience() const noexcept {
  return patience_ != ripc::kForever &&
         monotonic_now() - last_progress_ > static_cast<std::uint64_t>(std::max<std::int64_t>(patience_.count(), 0));
}

Connection::Outcome Connection::fail(ripc::Error error) {
  error_ = std::move(error);
  return Outcome::failed;
}

}  // namespace cli::file
