// SPDX-License-Identifier: Apache-2.0
// Reports on stderr what the context of a service refuses.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <thread>

#include "command.hpp"

namespace cli {

// Checks twice a second, in a thread of its own, from the constructor to the destructor. The context must outlive it.
class RefusalNotices {
 public:
  explicit RefusalNotices(ripc::Context& context) : context_(context), thread_([this] { run(); }) {}
  ~RefusalNotices();

 private:
  void run();
  void look_at_trust_file();
  void look_at_counters();

  ripc::Context& context_;
  std::string trouble_;         // with the trust file, as it was reported last
  std::uint64_t reported_ = 0;  // refusals
  int looks_until_notice_ = 0;  // so that many refusals do not flood the log
  int pause_ = 0;
  std::mutex mutex_;
  std::condition_variable stopping_;
  bool is_stopping_ = false;
  std::thread thread_;
};

}  // namespace cli
