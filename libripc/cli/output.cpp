// SPDX-License-Identifier: Apache-2.0
#include "output.hpp"

#include <fcntl.h>
#include <sodium.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cinttypes>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <span>

#include "exit_code.hpp"

namespace cli {
namespace {

std::FILE* failure_stream = nullptr;
int output_error = 0;  // the first errno of standard output

std::string format(const char* pattern, double value, const char* unit) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), pattern, value, unit);
  return text.data();
}

std::string scaled(double value, double step, const std::vector<const char*>& units) {
  std::size_t unit = 0;
  while (value >= step && unit + 1 < units.size()) {
    value /= step;
    ++unit;
  }
  const char* pattern = value >= 99.95 || value == std::floor(value) ? "%.0f %s"
                        : value >= 9.995                             ? "%.1f %s"
                                                                     : "%.2f %s";
  return format(pattern, value, units[unit]);
}

}  // namespace

std::string format_bytes(std::uint64_t bytes) {
  return scaled(static_cast<double>(bytes), 1024, {"B", "KiB", "MiB", "GiB", "TiB"});
}
std::string format_nanoseconds(double nanoseconds) { return scaled(nanoseconds, 1000, {"ns", "us", "ms", "s"}); }
std::string format_rate(double bytes_per_second) {
  return scaled(bytes_per_second, 1000, {"B/s", "kB/s", "MB/s", "GB/s", "TB/s"});
}
std::string format_count(double count) {
  std::string text = scaled(count, 1000, {"", "k", "M", "G"});
  if (!text.empty() && text.back() == ' ') text.pop_back();
  return text;
}
std::string format_id(ripc::ServiceId id) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "0x%016" PRIx64, id);
  return text.data();
}

std::string printable(std::string_view text) {
  std::string result(text);
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(result[at]); };
    // U+0080 to U+009F are control characters, too.
    const bool is_long = byte(i) == 0xc2 && i + 1 < result.size() && (byte(i + 1) & 0xe0) == 0x80;
    if (is_long) result.erase(i, 1);
    if (is_long || byte(i) < 0x20 || byte(i) == 0x7f) result[i] = '?';
  }
  return result;
}

bool is_utf8(std::string_view text) {
  try {
    (void)Json(text).dump();
    return true;
  } catch (const Json::type_error&) {
    return false;
  }
}

std::string to_base64(std::string_view bytes) {
  constexpr int kVariant = sodium_base64_VARIANT_ORIGINAL;
  std::string text(sodium_base64_ENCODED_LEN(bytes.size(), kVariant), '\0');
  sodium_bin2base64(text.data(), text.size(), reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size(),
                    kVariant);
  text.pop_back();  // its end
  return text;
}

void print_table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t column = 0; column < row.size(); ++column)
      widths[column] = std::max(widths[column], row[column].size());
  }
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      line += row[column];
      if (column + 1 < row.size()) line.append(widths[column] - row[column].size() + 2, ' ');
    }
    std::printf("%s\n", line.c_str());
  }
}

void print_json(const Json& json, std::FILE* stream) {
  const std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  std::fprintf(stream, "%s\n", text.c_str());
  if (stream == stdout) {
    flush_output();
  } else {
    std::fflush(stream);
  }
}

void print_error(std::string_view sentence) { std::fprintf(stderr, "ripc: %s\n", printable(sentence).c_str()); }

void tell_failures_as_json(std::FILE* stream) { failure_stream = stream; }

int fail(int exit_code, std::string_view sentence) {
  if (failure_stream != nullptr) return print_outcome(Json::object(), exit_code, sentence, failure_stream);
  print_error(sentence);
  return exit_code;
}

int fail(const ripc::Error& error) { return fail(exit_code_for(error.code()), error.text()); }

int print_outcome(Json fields, int exit_code, std::string_view sentence, std::FILE* stream) {
  fields["ok"] = exit_code == kOk;
  if (exit_code != kOk) {
    fields["error"] = sentence;
    fields["exit_code"] = exit_code;
  }
  print_json(fields, stream);
  if (exit_code != kOk) print_error(sentence);
  return exit_code;
}

void hold_standard_streams() {
  // Opened in the wrong direction, so that using the stream fails, as with a closed descriptor.
  constexpr std::array kDirections = {O_WRONLY, O_RDONLY, O_RDONLY};
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) {
    // The lowest free descriptor is this one.
    if (fcntl(fd, F_GETFD) < 0) (void)open("/dev/null", kDirections[static_cast<std::size_t>(fd)]);
  }
}

void flush_output() {
  if (std::fflush(stdout) != 0 && output_error == 0) output_error = errno;
}

int finish_output(int exit_code) {
  flush_output();
  if (output_error == 0 && std::ferror(stdout) == 0) return exit_code;
  print_error(std::string("standard output: ") + (output_error == 0 ? "an error" : std::strerror(output_error)) +
              ". Not all that was printed has arrived: make room there, or send it elsewhere, and try again.");
  return exit_code == kOk ? static_cast<int>(kFailure) : exit_code;
}

Json percentiles(std::vector<double>& samples) {
  std::sort(samples.begin(), samples.end());
  const auto at = [&](double fraction) {
    if (samples.empty()) return 0.0;
    const double rank = std::ceil(fraction * static_cast<double>(samples.size())) - 1;
    return samples[static_cast<std::size_t>(std::max(rank, 0.0))];
  };
  // The mean shows more than percentiles, which fall on whole steps of a coarse clock.
  const std::size_t quarter = samples.size() / 4;
  const auto middle = std::span(samples).subspan(quarter, samples.size() - 2 * quarter);
  const double sum = std::accumulate(middle.begin(), middle.end(), 0.0);
  const double mid_mean = middle.empty() ? 0 : sum / static_cast<double>(middle.size());
  return {{"mid_mean", mid_mean}, {"min", at(0)},      {"p50", at(0.5)}, {"p90", at(0.9)},
          {"p99", at(0.99)},      {"p999", at(0.999)}, {"max", at(1)}};
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

std::uint64_t monotonic_now() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(now.tv_nsec);
}

Progress::Progress(std::string_view label, bool enabled)
    : label_(label), enabled_(enabled && isatty(STDERR_FILENO) == 1), started_(monotonic_now()) {}

Progress::~Progress() {
  if (drawn_) std::fputs("\r\033[K", stderr);
}

void Progress::update(std::uint64_t done, std::uint64_t total) {
  if (!enabled_ || total == 0) return;
  constexpr std::uint64_t kQuiet = 500'000'000;
  constexpr std::uint64_t kInterval = 50'000'000;
  const std::uint64_t now = monotonic_now();
  if (now - started_ < kQuiet || (drawn_ && now - last_drawn_ < kInterval)) return;
  last_drawn_ = now;
  drawn_ = true;

  winsize window{};
  const std::size_t columns = ioctl(STDERR_FILENO, TIOCGWINSZ, &window) == 0 && window.ws_col > 0 ? window.ws_col : 80;
  const double fraction = static_cast<double>(done) / static_cast<double>(total);
  const double seconds = static_cast<double>(now - started_) / 1e9;
  const double rate = static_cast<double>(done) / seconds;
  const std::string figures = format(" %3.0f%% %s", fraction * 100, format_rate(rate).c_str()) +
                              (rate > 0 ? format("  %.0f s %s", static_cast<double>(total - done) / rate, "left") : "");
  constexpr std::size_t kFrame = 4;
  const std::size_t used = label_.size() + figures.size() + kFrame;
  const std::size_t width = columns > used + 5 ? std::min<std::size_t>(columns - used, 40) : 5;
  const std::size_t filled = static_cast<std::size_t>(fraction * static_cast<double>(width));
  std::string bar(filled, '=');
  if (filled < width) bar += '>';
  bar.resize(width, ' ');
  std::fprintf(stderr, "\r%s [%s]%s\033[K", label_.c_str(), bar.c_str(), figures.c_str());
}

}  // namespace cli
