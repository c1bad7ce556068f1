// SPDX-License-Identifier: Apache-2.0
// What users and scripts see: numbers in readable units, tables, JSON lines, errors, a progress bar.
#pragma once

#include <cstdint>
#include <cstdio>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "ripc/ripc.hpp"

namespace cli {

using Json = nlohmann::ordered_json;

std::string format_bytes(std::uint64_t bytes);       // "64 B", "1.5 MiB"
std::string format_nanoseconds(double nanoseconds);  // "512 ns", "1.25 ms"
std::string format_rate(double bytes_per_second);    // "9.81 GB/s": decimal units, as rates usually are
std::string format_count(double count);              // "12.4 M"
std::string format_id(ripc::ServiceId id);           // "0x8000000000000001"

// Text from a peer, fit for a terminal: control characters become '?'.
std::string printable(std::string_view text);

// Rows of equal length; the first row is the header. Columns are two spaces apart. Goes to stdout.
void print_table(const std::vector<std::vector<std::string>>& rows);

bool is_utf8(std::string_view text);
std::string to_base64(std::string_view bytes);

// One line of JSON on `stream`, flushed. Bytes that are not UTF-8 are replaced.
void print_json(const Json& json, std::FILE* stream = stdout);

// "ripc: sentence" on stderr.
void print_error(std::string_view sentence);

// From now on every failure is also printed as one JSON object on `stream`; nullptr: no longer.
void tell_failures_as_json(std::FILE* stream);
// Prints the sentence on stderr, and the object: {"ok":false,"error":...,"exit_code":...}. Returns the exit code.
int fail(int exit_code, std::string_view sentence);
int fail(const ripc::Error& error);
// Prints one line of JSON with these fields of an outcome. The sentence goes to stderr as well, if it is a failure.
// Returns the exit code.
int print_outcome(Json fields, int exit_code, std::string_view sentence, std::FILE* stream = stdout);

// Makes sure that descriptors 0, 1 and 2 are open, even if the caller closed them, so that no other file gets one of
// these numbers.
void hold_standard_streams();
// Use it instead of fflush(stdout): it remembers a failure for finish_output().
void flush_output();
// Call it at the end. Returns `exit_code`, or the code of a failure if not all of the output could be written.
int finish_output(int exit_code);

// "min", "p50", "p90", "p99", "p999", "max" and "mid_mean", the mean of the middle half, of samples, which this call
// sorts. All are 0 without samples.
Json percentiles(std::vector<double>& samples);
double median(std::vector<double> values);

// A bar on stderr for work that takes longer than half a second, if stderr is a terminal.
class Progress {
 public:
  explicit Progress(std::string_view label, bool enabled);
  ~Progress();  // clears the bar
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void update(std::uint64_t done, std::uint64_t total);

 private:
  std::string label_;
  bool enabled_;
  bool drawn_ = false;
  std::uint64_t started_;
  std::uint64_t last_drawn_ = 0;
};

// Nanoseconds on the monotonic clock.
std::uint64_t monotonic_now() noexcept;

}  // namespace cli
