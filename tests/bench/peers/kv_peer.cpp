// SPDX-License-Identifier: Apache-2.0
// Runs the workload of examples/kv on redis and memcached, over a Unix socket and in their text protocols. It writes
// `window` requests together, then reads their answers. scripts/bench-kv builds and runs it.
//
//   kv_peer redis|memcached SOCKET WINDOW GETS SKEW OPERATIONS      prints what `kv client` prints
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <string_view>

#include "../../../examples/kv/report.hpp"
#include "../../../examples/kv/workload.hpp"

namespace {

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::_Exit(1);
}

class Stream {
 public:
  explicit Stream(const char* path) : descriptor_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, path, sizeof address.sun_path - 1);
    if (::connect(descriptor_, reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) fail(path);
  }
  ~Stream() { ::close(descriptor_); }
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  void put(std::string_view bytes) { out_ += bytes; }
  void flush() {
    for (std::size_t sent = 0; sent < out_.size();) {
      const ssize_t count = ::write(descriptor_, out_.data() + sent, out_.size() - sent);
      if (count < 0) fail("write");
      sent += static_cast<std::size_t>(count);
    }
    out_.clear();
  }
  // Valid until the next call.
  std::string_view take(std::size_t size) {
    while (in_.size() - read_ < size) fill();
    read_ += size;
    return std::string_view(in_).substr(read_ - size, size);
  }
  std::string_view line() {
    std::size_t end = 0;
    while ((end = in_.find("\r\n", read_)) == std::string::npos) fill();
    const std::size_t begin = std::exchange(read_, end + 2);
    return std::string_view(in_).substr(begin, end - begin);
  }

 private:
  void fill() {
    in_.erase(0, std::exchange(read_, 0));
    char bytes[16384];
    const ssize_t count = ::read(descriptor_, bytes, sizeof bytes);
    if (count <= 0) fail("read");
    in_.append(bytes, static_cast<std::size_t>(count));
  }

  int descriptor_;
  std::string out_;
  std::string in_;
  std::size_t read_ = 0;
};

std::string_view text(const kv::Key& key) { return {key.data(), key.size()}; }
std::string_view text(const kv::Value& value) { return {reinterpret_cast<const char*>(&value), sizeof value}; }

bool is_right(const kv::Key& key, std::string_view bytes) {
  kv::Value value;
  std::memcpy(&value, bytes.data(), sizeof value);
  return kv::is_value_of(key, value);
}

struct Redis {
  static void get(Stream& stream, const kv::Key& key) {
    stream.put("*2\r\n$3\r\nGET\r\n$16\r\n");
    stream.put(text(key));
    stream.put("\r\n");
  }
  static void put(Stream& stream, const kv::Key& key, const kv::Value& value) {
    stream.put("*3\r\n$3\r\nSET\r\n$16\r\n");
    stream.put(text(key));
    stream.put("\r\n$32\r\n");
    stream.put(text(value));
    stream.put("\r\n");
  }
  static bool got(Stream& stream, const kv::Key& key) {
    return stream.line() == "$32" && is_right(key, stream.take(sizeof(kv::Value) + 2));
  }
  static bool was_put(Stream& stream) { return stream.line() == "+OK"; }
};

struct Memcached {
  static void get(Stream& stream, const kv::Key& key) {
    stream.put("get ");
    stream.put(text(key));
    stream.put("\r\n");
  }
  static void put(Stream& stream, const kv::Key& key, const kv::Value& value) {
    stream.put("set ");
    stream.put(text(key));
    stream.put(" 0 0 32\r\n");
    stream.put(text(value));
    stream.put("\r\n");
  }
  static bool got(Stream& stream, const kv::Key& key) {
    if (!stream.line().starts_with("VALUE ")) return false;
    const bool right = is_right(key, stream.take(sizeof(kv::Value) + 2));
    return stream.line() == "END" && right;
  }
  static bool was_put(Stream& stream) { return stream.line() == "STORED"; }
};

template <typename Protocol>
void run(Stream& stream, const std::vector<kv::Operation>& operations, std::uint64_t count, std::uint64_t window,
         kv::Report& report) {
  static std::uint64_t version = 0;
  report.start();
  auto start = kv::Clock::now();
  for (std::uint64_t done = 0; done < count; done += window) {
    const std::uint64_t end = std::min(count, done + window);
    for (std::uint64_t index = done; index < end; ++index) {
      const kv::Operation& operation = operations[index % operations.size()];
      if (operation.is_put)
        Protocol::put(stream, operation.key, kv::make_value(operation.key, ++version));
      else
        Protocol::get(stream, operation.key);
    }
    stream.flush();
    for (std::uint64_t index = done; index < end; ++index) {
      const kv::Operation& operation = operations[index % operations.size()];
      const bool right = operation.is_put ? Protocol::was_put(stream) : Protocol::got(stream, operation.key);
      report.ended(start, kv::Clock::now(), right);
    }
    start = kv::Clock::now();
  }
}

template <typename Protocol>
int measure(char** argv) {
  Stream stream(argv[2]);
  const std::uint64_t window = std::strtoull(argv[3], nullptr, 10);
  const std::uint64_t count = std::strtoull(argv[6], nullptr, 10);
  const kv::Mix mix{.gets = std::strtod(argv[4], nullptr), .skew = std::strtod(argv[5], nullptr)};
  const auto filling = kv::make_filling(mix);
  const auto operations = kv::make_operations(mix, std::min<std::size_t>(count, 1 << 20));
  kv::Report report(std::max<std::size_t>(count, filling.size()));
  run<Protocol>(stream, filling, filling.size(), 64, report);
  const bool filled = report.is_clean();
  run<Protocol>(stream, operations, count, window, report);
  auto json = report.json();
  json["window"] = window;
  std::puts(json.dump().c_str());
  return filled && report.is_clean() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view peer = argc == 7 ? argv[1] : "";
  if (peer == "redis") return measure<Redis>(argv);
  if (peer == "memcached") return measure<Memcached>(argv);
  std::fputs("usage: kv_peer redis|memcached SOCKET WINDOW GETS SKEW OPERATIONS\n", stderr);
  return 2;
}
