// SPDX-License-Identifier: Apache-2.0
// A client's way to one service that may restart at any time: sends requests, waits for replies, notices that the
// service is gone or another one, and waits for its return.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "command.hpp"
#include "file/file_protocol.hpp"

namespace cli::file {

// One thread at a time. The context must outlive it.
class Connection {
 public:
  // `patience`: how long the service may be away, or silent, before a request fails. `wait_for_first`: also before it
  // was ever seen.
  Connection(libripc::Context& context, libripc::Service service, Target target, libripc::Nanoseconds patience,
             bool wait_for_first);

  // Finds the service, waiting for it as long as the patience lasts. RIPC_NO_SERVICE.
  libripc::Error find();

  enum class Outcome {
    done,
    lost,    // the request, the reply or the service was lost: find() and ask again
    failed,  // error() says why; asking again would not help
  };

  // Sends one request. The items' memory is only read during the call.
  Outcome send(Operation operation, const RequestHeader& header, libripc::Bytes argument,
               const libripc::SendOptions& options = {});
  // Waits for the next reply of the file protocol, whatever request it answers.
  Outcome receive(libripc::Message& message, ReplyHeader& header);

  // Called when something arrived that was waited for: the patience starts anew.
  void progress() noexcept;
  // Nothing has arrived for as long as the service may be silent.
  bool out_of_patience() const noexcept;

  const libripc::Error& error() const noexcept { return error_; }
  const libripc::ServiceInfo& info() const noexcept { return info_; }
  // Of the path that is in use now: a service may have moved since find().
  std::string transport() const;
  libripc::Service& service() noexcept { return service_; }
  const Target& target() const noexcept { return target_; }
  std::uint64_t next_request() noexcept { return ++request_; }

  // The service is gone, or another process holds its ID than the one find() found.
  bool has_moved();

 private:
  Outcome fail(libripc::Error error);
  libripc::Error gone() const;
  bool may_look() const noexcept;
  // Finding the service and failing to send once more, as it took this time, would end after the patience.
  bool another_would_be_late() const noexcept;

  libripc::Context& context_;
  libripc::Service service_;
  Target target_;
  libripc::Nanoseconds patience_;
  bool seen_;
  bool answered_ = false;  // at least once
  libripc::ServiceInfo info_;
  libripc::Error error_;
  std::uint64_t request_ = 0;
  std::uint64_t last_progress_;
  std::uint64_t last_request_;
  std::uint64_t cycle_began_ = 0;  // of find() and send()
  std::uint64_t reply_patience_;   // nanoseconds of silence after which a request counts as lost
};

}  // namespace cli::file
