// SPDX-License-Identifier: Apache-2.0
#include "refusal_notices.hpp"

#include <algorithm>
#include <chrono>

namespace cli {
namespace {

constexpr std::chrono::milliseconds kInterval{500};
// After each notice the pause doubles, because a neighbour from another cluster keeps trying for ever.
constexpr int kFirstPause = 20, kLongestPause = 7200;  // looks

std::string counted(std::uint64_t count, const char* what, const char* why) {
  return count == 0 ? std::string() : " " + std::to_string(count) + " " + what + " (" + why + ")";
}

}  // namespace

RefusalNotices::~RefusalNotices() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
  }
  stopping_.notify_one();
  thread_.join();
}

void RefusalNotices::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_.wait_for(lock, kInterval, [&] { return is_stopping_; })) {
    look_at_trust_file();
    look_at_counters();
  }
}

void RefusalNotices::look_at_trust_file() {
  const ripc::Error error = context_.trust_status();
  std::string trouble(error.ok() ? std::string_view() : error.text());
  if (trouble == trouble_) return;
  trouble_ = std::move(trouble);
  print_error(trouble_.empty() ? "The trust file is in force again." : trouble_ + " The former one stays in force.");
}

void RefusalNotices::look_at_counters() {
  if (looks_until_notice_ > 0) --looks_until_notice_;
  const auto refused = context_.security_statistics();
  if (!refused.ok() || looks_until_notice_ > 0) return;
  const std::uint64_t sum =
      refused->handshakes_refused + refused->links_refused + refused->records_refused + refused->packets_refused;
  if (sum == reported_) return;
  reported_ = sum;
  looks_until_notice_ = pause_ = std::clamp(2 * pause_, kFirstPause, kLongestPause);
  print_error(
      "Refused since the start:" +
      counted(refused->handshakes_refused, "connections", "another cluster key, a user of RIPC_PEERS, too slow") +
      counted(refused->links_refused, "links", "calls= of the trust file") +
      counted(refused->records_refused, "records", "holds= and joins= of the trust file, or older than a takeover") +
      counted(refused->packets_refused, "packets",
              "by another cluster's multicast, a host with a wrong clock, or somebody on the path") +
      ". docs/security.md says more.");
}

}  // namespace cli
