// SPDX-License-Identifier: Apache-2.0
// A client's connection to one service, which may restart at any time. It sends requests and waits for replies. It
// notices when the service is gone or replaced by another one, and waits for its return.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "command.hpp"
#include "file/file_protocol.hpp"

namespace cli::file {

// One thread at a time. The context must outlive it.
class Connection {
 public:
  // `patience`: how long the service may be away, or silent, before a request fails. `wait_for_first`: this applies
  // also before the service was first seen.
  Connection(ripc::Context& context, ripc::Service service, Target target, ripc::Nanoseconds patience,
             bool wait_for_first);

  // Finds the service; waits for it as long as the patience lasts. RIPC_NO_SERVICE: it did not appear.
  ripc::Error find();

  enum class Outcome {
    done,
    lost,    // the request, the reply or the service was lost: find() and ask again
    late,    // no reply in time, though the service is there: as above, perhaps ask for less
    failed,  // error() says why; asking again would not help
  };

  // Sends one request. The items' memory is only read during the call.
  Outcome send(Operation operation, const RequestHeader& header, ripc::Bytes argument,
               const ripc::SendOptions& options = {});
  // Waits for the next reply of the file protocol, whatever request it answers.
  Outcome receive(ripc::Message& message, ReplyHeader& header);

  // Call it when something expected has arrived: the patience starts anew.
  void progress() noexcept;
  // Nothing has arrived for as long as the service may be silent.
  bool out_of_patience() const noexcept;

  const ripc::Error& error() const noexcept { return error_; }
  const ripc::ServiceInfo& info() const noexcept { return info_; }
  // The transport that is in use now: a service may have moved since find().
  std::string transport() const;
  // The rails in use, with the bytes that each has carried since the last call; empty if the transport has no rails.
  std::vector<ripc::RailInfo> carried();
  ripc::Service& service() noexcept { return service_; }
  const Target& target() const noexcept { return target_; }
  std::uint64_t next_request() noexcept { return ++request_; }

  // True if the service is gone, or a process other than the one that find() found holds its ID.
  bool has_moved();

 private:
  Outcome fail(ripc::Error error);
  ripc::Error gone() const;
  bool may_look() const noexcept;
  // Whether another cycle of find() and a failing send(), if it takes as long as this one, would outlast the patience.
  bool another_would_be_late() const noexcept;

  ripc::Context& context_;
  ripc::Service service_;
  Target target_;
  ripc::Nanoseconds patience_;
  bool seen_;
  bool answered_ = false;  // at least once
  ripc::ServiceInfo info_;
  std::vector<ripc::RailInfo> rails_;  // when carried() was called
  ripc::Error error_;
  std::uint64_t request_ = 0;
  std::uint64_t last_progress_;
  std::uint64_t last_request_;
  std::uint64_t cycle_began_ = 0;  // of find() and send()
  std::uint64_t reply_patience_;   // nanoseconds of silence after which a request counts as lost
};

}  // namespace cli::file
