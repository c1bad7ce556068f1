// SPDX-License-Identifier: Apache-2.0
// The service side of the file protocol: answers requests one after the other.
#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "file/chunk_cache.hpp"

namespace cli::file {

// One thread at a time. The context and the service must outlive it.
class FileServer {
 public:
  struct Counters {
    std::uint64_t requests = 0;
    std::uint64_t refused = 0;       // answered with a status that is not ok
    std::uint64_t files_inline = 0;  // sent short
    std::uint64_t chunks = 0;        // sent long or into a return buffer
    std::uint64_t bytes = 0;
    std::uint64_t unanswered = 0;  // replies that could not be sent; the client asks again
    std::uint64_t not_taken = 0;   // contents that were sent but that the client did not take
  };

  FileServer(ripc::Context& context, ripc::Service& service, ServedDirectory directory, std::uint64_t cache_limit,
             bool verbose)
      : service_(service), directory_(std::move(directory)), cache_(context, cache_limit), verbose_(verbose) {}

  // Answers one message. A message that is neither a request of the file protocol nor a ping gets the answer
  // bad_request.
  void handle(const ripc::Message& message);

  // Tells every subscriber that the service is ending.
  void notify_closing();

  const Counters& counters() const noexcept { return counters_; }
  const ChunkCache& cache() const noexcept { return cache_; }

 private:
  static constexpr std::size_t kMaxSubscribers = 4096;
  static constexpr std::size_t kMaxTickets = 1024;

  void open(const ripc::Message& message, const RequestHeader& request);
  void fetch(const ripc::Message& message, const RequestHeader& request);
  void subscribe(const ripc::Message& message, const RequestHeader& request);
  void refuse(const ripc::Message& message, std::uint64_t request, FileStatus status);
  void send(const ripc::Message& message, std::uint32_t tag, const ripc::Items& items);
  void log(const ripc::Message& message, std::uint32_t tag, ripc_status sent) const;

  void look_at_tickets();

  ripc::Service& service_;
  ServedDirectory directory_;
  ChunkCache cache_;
  bool verbose_;
  Counters counters_;
  std::vector<std::byte> small_;  // content of a small file, until it is sent
  std::vector<ripc_notification> subscribers_;
  std::deque<ripc::Ticket> tickets_;  // of contents under way
};

}  // namespace cli::file
