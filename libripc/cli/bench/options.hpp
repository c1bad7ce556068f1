// SPDX-License-Identifier: Apache-2.0
// What `ripc bench` was asked to measure.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

#include "output.hpp"
#include "ripc/ripc.hpp"

namespace cli::bench {

struct BenchOptions {
  std::string bench;              // pingpong, rate, bandwidth, calls, service, protocols, pool
  std::string transport = "shm";  // for the context
  std::string kind = "short";     // short, long, auto, return, lend
  std::uint64_t size = 64;        // bytes of payload
  std::uint64_t iterations = 0;   // of one run; 0: chosen by the size
  // block: sleep at once; adaptive: as the library does by default; thread: another thread receives and hands over
  std::string wait = "spin";
  std::uint64_t runs = 1;
  std::uint64_t depth = 2;  // messages under way at once, for long, return and lent streams
  // Messages in one send call; 0: 64 short ones, like bare datagrams, or as many long ones as there is room for.
  std::uint64_t batch = 0;
  std::string source = "kept";   // or lease, malloc: where a stream's large payloads are sent from
  std::string landing = "heap";  // or registered, lease: where a stream's large payloads land
  bool one_buffer = false;       // for all messages of a long stream, on each side
  std::uint32_t queue_messages = 0;
  std::uint32_t queue_bytes = 0;
  bool pin = true;
  bool json = false;
  // For `ripc bench service`.
  double service_time = 0;  // microseconds that the service computes for each request
  double rate = 0;          // requests per second of all clients together; 0: each sends when its last one is answered
  std::uint64_t clients = 1;
  std::uint64_t neighbours = 0;  // processes that compute all the time, one on each processor in turn
  double duration = 2;           // seconds
  // Calls.
  std::uint64_t window = 1;           // calls under way at once
  std::uint64_t answer = UINT64_MAX;  // bytes of the answer, at most the size
  bool symmetric = false;             // both sides call
  std::uint64_t callers = 1;          // on each side, if symmetric; each begins the calls of its window together
  std::string key_file;               // of both sides; empty: from the environment

  // The options of a context on the transport to measure.
  ripc::ContextOptions context() const {
    ripc::ContextOptions options;
    options.transports = transport;
    options.cluster_key_file = key_file;
    return options;
  }
};

// One measurement: the fields of its JSON object.
using BenchResult = ripc::Result<Json>;

BenchResult run_pingpong(const BenchOptions& options);
BenchResult run_rate(const BenchOptions& options);    // short: messages_per_second; others as run_stream()
BenchResult run_stream(const BenchOptions& options);  // all but short: bytes_per_second against memcpy
BenchResult run_calls(const BenchOptions& options);
BenchResult run_service(const BenchOptions& options);
BenchResult run_protocols(const BenchOptions& options);  // up to options.size, options.runs rounds
void print_protocols(const Json& json);
BenchResult run_pool(const BenchOptions& options);

}  // namespace cli::bench
