// SPDX-License-Identifier: Apache-2.0
// Runs a libFuzzer entry point without libFuzzer, so that any compiler can do the short run of the test suite. It runs
// every corpus file once, then a bounded number of mutations of them. The mutations depend only on the seed and the
// corpus. It understands the libFuzzer options that it can use. Without a corpus it begins with an empty input:
//
//   NAME_fuzz [-runs=N] [-seed=S] [-max_len=BYTES] [FILE|FOLDER...]
//
// The input is always in a heap block of its exact size, so that AddressSanitizer sees a read of one byte too many.
// Exits with 0 if nothing was found and with 2 for wrong use. A finding ends the process and leaves its input in
// ./crash-standalone.
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

// The names are those of libFuzzer and of the sanitizers; only a build with a sanitizer has the second function.
// NOLINTBEGIN(readability-identifier-naming, bugprone-reserved-identifier)
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());
// NOLINTEND(readability-identifier-naming, bugprone-reserved-identifier)

namespace {

using Input = std::vector<std::uint8_t>;

struct Options {
  std::uint64_t runs = 20000;
  std::uint64_t seed = 1;
  std::uint64_t max_length = 4096;
  std::vector<std::string> paths;
};

constexpr const char* kCrashFile = "crash-standalone";

// The input that runs now, for the handlers below.
const std::uint8_t* current_data = nullptr;
std::size_t current_size = 0;

// Async-signal-safe.
void save_current_input() {
  const int fd = ::open(kCrashFile, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
  if (fd < 0) return;
  std::size_t written = 0;
  while (written < current_size) {
    const ssize_t count = ::write(fd, current_data + written, current_size - written);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    written += static_cast<std::size_t>(count);
  }
  ::close(fd);
}

void on_abort(int) { save_current_input(); }  // abort() goes on to end the process when its handler returns

void run(const Input& input) {
  const auto block = std::make_unique<std::uint8_t[]>(input.size());
  std::copy(input.begin(), input.end(), block.get());
  current_data = block.get();
  current_size = input.size();
  LLVMFuzzerTestOneInput(block.get(), input.size());
}

class Mutator {
 public:
  explicit Mutator(const Options& options) : random_(options.seed), max_length_(options.max_length) {}

  Input mutate(const std::vector<Input>& corpus) {
    Input input = corpus.empty() ? Input{} : corpus[below(corpus.size())];
    for (std::size_t left = 1 + below(6); left > 0; --left) mutate_once(input, corpus);
    if (input.size() > max_length_) input.resize(max_length_);
    return input;
  }

 private:
  // 0 to bound - 1. Plain arithmetic, because std::uniform_int_distribution differs between standard libraries.
  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }
  std::uint8_t byte() { return static_cast<std::uint8_t>(random_()); }

  void mutate_once(Input& input, const std::vector<Input>& corpus) {
    if (input.empty()) {
      input.push_back(byte());
      return;
    }
    // Most of the structure is at the front, so half of the changes are made there.
    const std::size_t range = below(2) == 0 ? input.size() : std::min<std::size_t>(input.size(), 24);
    const std::size_t at = below(range);
    switch (below(8)) {
      case 0:
        input[at] = static_cast<std::uint8_t>(input[at] ^ (1u << below(8)));
        break;
      case 1:
        input[at] = byte();
        break;
      case 2:
        input[at] = static_cast<std::uint8_t>(input[at] + (below(2) == 0 ? 1 : 0xff));
        break;
      case 3:
        put_number(input, at);
        break;
      case 4:
        input.resize(at);
        break;
      case 5:
        input.insert(input.end(), 1 + below(32), byte());
        break;
      case 6:
        copy_within(input, at);
        break;
      default:
        if (!corpus.empty()) splice(input, at, corpus[below(corpus.size())]);
        break;
    }
  }

  // An integer of 1 to 8 bytes at an edge: 0, all ones, or near a power of two.
  void put_number(Input& input, std::size_t at) {
    const std::uint64_t power = std::uint64_t{1} << below(64);
    const std::uint64_t values[] = {0, ~std::uint64_t{0}, power, power - 1, power + 1, ~power};
    std::uint64_t value = values[below(std::size(values))];
    const std::size_t end = std::min(input.size(), at + (std::size_t{1} << below(4)));
    for (; at < end; ++at, value >>= 8) input[at] = static_cast<std::uint8_t>(value);
  }

  void copy_within(Input& input, std::size_t at) {
    const std::size_t from = below(input.size());
    const std::size_t length = 1 + below(input.size() - from);
    const Input piece(input.begin() + static_cast<std::ptrdiff_t>(from),
                      input.begin() + static_cast<std::ptrdiff_t>(from + length));
    input.insert(input.begin() + static_cast<std::ptrdiff_t>(at), piece.begin(), piece.end());
  }

  void splice(Input& input, std::size_t at, const Input& other) {
    if (other.empty()) return;
    const std::size_t from = below(other.size());
    input.resize(at);
    input.insert(input.end(), other.begin() + static_cast<std::ptrdiff_t>(from), other.end());
  }

  std::mt19937_64 random_;
  std::uint64_t max_length_;
};

std::optional<std::uint64_t> parse_number(std::string_view text) {
  if (text.empty() || text.size() > 18) return std::nullopt;
  std::uint64_t value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9') return std::nullopt;
    value = value * 10 + static_cast<std::uint64_t>(digit - '0');
  }
  return value;
}

bool parse_option(std::string_view argument, std::string_view name, std::uint64_t& value) {
  if (argument.substr(0, name.size()) != name) return false;
  const std::optional<std::uint64_t> number = parse_number(argument.substr(name.size()));
  if (number) value = *number;
  return number.has_value();
}

std::optional<Options> parse(int count, char** arguments) {
  Options options;
  for (int index = 1; index < count; ++index) {
    const std::string_view argument = arguments[index];
    if (argument.empty() || argument.front() != '-') {
      options.paths.emplace_back(argument);
    } else if (!parse_option(argument, "-runs=", options.runs) && !parse_option(argument, "-seed=", options.seed) &&
               !parse_option(argument, "-max_len=", options.max_length)) {
      return std::nullopt;
    }
  }
  return options;
}

// Loads files in the order of their names, so that a run is the same everywhere. nullopt if something cannot be read.
std::optional<std::vector<Input>> load(const std::vector<std::string>& paths) {
  namespace fs = std::filesystem;
  std::vector<fs::path> files;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      files.emplace_back(path);
      continue;
    }
    std::vector<fs::path> found;
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(path, error)) {
      if (entry.is_regular_file()) found.push_back(entry.path());
    }
    std::sort(found.begin(), found.end());
    files.insert(files.end(), found.begin(), found.end());
  }
  std::vector<Input> corpus;
  for (const fs::path& file : files) {
    std::ifstream stream(file, std::ios::binary);
    corpus.emplace_back(std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>());
    if (!stream.is_open() || stream.bad()) {
      std::fprintf(stderr, "%s: cannot be read\n", file.c_str());
      return std::nullopt;
    }
  }
  return corpus;
}

}  // namespace

int main(int argc, char** argv) {
  const std::optional<Options> options = parse(argc, argv);
  if (!options) {
    std::fprintf(stderr, "usage: %s [-runs=N] [-seed=S] [-max_len=BYTES] [FILE|FOLDER...]\n", argv[0]);
    return 2;
  }
  const std::optional<std::vector<Input>> corpus = load(options->paths);
  if (!corpus) return 2;
  if (corpus->empty() && !options->paths.empty()) {
    std::fprintf(stderr, "the corpus is empty: name a folder with seed files\n");
    return 2;
  }
  std::signal(SIGABRT, on_abort);
  if (__sanitizer_set_death_callback != nullptr) __sanitizer_set_death_callback(save_current_input);

  for (const Input& input : *corpus) run(input);
  run({});
  Mutator mutator(*options);
  for (std::uint64_t left = options->runs; left > 0; --left) run(mutator.mutate(*corpus));
  std::printf("%zu corpus files and %llu mutations (seed %llu): nothing found\n", corpus->size(),
              static_cast<unsigned long long>(options->runs), static_cast<unsigned long long>(options->seed));
  return 0;
}
