// SPDX-License-Identifier: Apache-2.0
// Fetching one file from a file service, whole, through restarts of the service.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "exit_code.hpp"
#include "file/connection.hpp"
#include "file/output_file.hpp"

namespace cli::file {

struct FetchOptions {
  bool return_buffer = false;  // let the service write the content instead of pulling it
  bool verify = false;         // compare an XXH3 digest that the service computes
  std::uint64_t chunk = std::uint64_t{64} << 20;
  bool progress = true;
};

struct FetchReport {
  int exit_code = kOk;
  std::string error;  // a sentence, if exit_code is not kOk
  std::uint64_t bytes = 0;
  std::string travelled;  // "short", "long", "return", or "mixed"
  std::string transport;
  std::vector<ripc::RailInfo> rails;  // with what they have carried
  std::uint64_t chunks = 0;           // long messages or filled return buffers
  std::uint64_t retries = 0;          // times something was asked for again
  std::uint64_t nanoseconds = 0;      // from the first request to the whole file in its output
  bool verified = false;
  std::string digest;  // XXH3-128 of a file that came in one piece, hexadecimal; only with verify
};

// Fetches `path` into `output`. One at a time on a connection.
class Fetch {
 public:
  Fetch(Connection& connection, std::string path, Output& output, const FetchOptions& options)
      : connection_(connection), path_(std::move(path)), output_(output), options_(options) {}

  FetchReport run();

 private:
  enum class Step { done, again, reopen, failed };
  struct Pending {
    std::uint64_t request;
    std::uint64_t index;  // of the chunk
    bool has_window;      // the library has its window; no message has filled it yet
    std::uint64_t return_request;
    std::uint64_t incarnation;  // of the service that was asked
  };

  Step open();
  Step take_inline(const ripc::Message& message, const ReplyHeader& header);
  Step transfer();
  Step request_chunk(std::uint64_t index);
  Step take_reply(ripc::Message& message, const ReplyHeader& header);
  Step take_content(const ripc::Message& message, const ReplyHeader& header, const Pending& pending);
  Step give_up_pending();
  void ask_for_less();
  Step settle(Connection::Outcome outcome);
  Step refuse(FileStatus status);
  Step fail(int exit_code, std::string_view sentence);
  Step content_failed(const ripc::ItemView& content);
  bool check_digest(const ReplyHeader& header, ripc::Bytes content);
  void note_travelled(const char* how);
  std::uint64_t offset_of(std::uint64_t index) const noexcept { return index * options_.chunk; }
  std::uint64_t length_of(std::uint64_t index) const noexcept;
  std::uint64_t chunk_count() const noexcept { return (size_ + options_.chunk - 1) / options_.chunk; }

  Connection& connection_;
  std::string path_;
  Output& output_;
  FetchOptions options_;
  FetchReport report_;
  std::uint64_t size_ = 0;
  std::uint64_t version_ = 0;
  std::uint64_t completed_ = 0;  // chunks
  unsigned failures_ = 0;        // contents that did not arrive, since the last one that did
  std::deque<Pending> pending_;
};

}  // namespace cli::file
