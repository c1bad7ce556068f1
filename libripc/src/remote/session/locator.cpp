// SPDX-License-Identifier: Apache-2.0
#include "remote/session/locator.hpp"

#include <algorithm>
#include <string_view>

#include "base/parse_number.hpp"
#include "base/plain_text.hpp"

namespace ripc::internal::remote {

namespace {

bool is_ip(std::string_view text) {
  Endpoint endpoint;
  return Endpoint::parse(std::string(text), 1, endpoint);
}

// IP:PORT or [IPV6]:PORT.
bool parse_short(std::string_view text, Locator& locator) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos || !parse_number(text.substr(colon + 1), locator.port) || locator.port == 0)
    return false;
  std::string_view ip = text.substr(0, colon);
  if (ip.size() >= 2 && ip.front() == '[' && ip.back() == ']') {
    ip = ip.substr(1, ip.size() - 2);
  } else if (ip.find(':') != std::string_view::npos) {
    return false;
  }
  locator.ips.emplace_back(ip);
  return is_ip(ip);
}

bool parse_fields(std::string_view text, Locator& locator) {
  while (!text.empty()) {
    const std::string_view field = text.substr(0, text.find(';'));
    text.remove_prefix(std::min(field.size() + 1, text.size()));
    const std::size_t equal = field.find('=');
    if (equal == std::string_view::npos) return false;
    const std::string_view key = field.substr(0, equal);
    const std::string_view value = field.substr(equal + 1);
    if (key == "ctx") {
      if (!parse_number(value, locator.context, 16) || locator.context == 0) return false;
    } else if (key == "host") {
      locator.host = value;
    } else if (key == "port") {
      if (!parse_number(value, locator.port) || locator.port == 0) return false;
    } else if (key == "ip") {
      if (locator.ips.size() >= kMaxIps || !is_ip(value)) return false;
      locator.ips.emplace_back(value);
    }
    // Fields that a newer version adds are ignored.
  }
  return locator.port != 0 && !locator.ips.empty();
}

}  // namespace

Result<Locator> Locator::parse(const std::string& text) {
  Locator locator;
  const bool good = text.find('=') == std::string::npos ? parse_short(text, locator) : parse_fields(text, locator);
  if (good) return locator;
  return Status(RIPC_INVALID_ARGUMENT, "'" + text +
                                           "' is not a socket address: write IP:PORT, [IPV6]:PORT, or "
                                           "port=PORT;ip=IP with more ip= as needed.");
}

std::string Locator::text() const {
  std::string result;
  if (context != 0) result = "ctx=" + id_text(context).substr(2) + ';';
  if (!host.empty()) result += "host=" + host + ';';
  result += "port=" + std::to_string(port);
  for (const std::string& ip : ips) result += ";ip=" + ip;
  return result;
}

std::vector<Endpoint> Locator::endpoints(const std::string& own_host) const {
  std::vector<Endpoint> result;
  const bool same_host = !host.empty() && host == own_host;
  for (const std::string& ip : ips) {
    Endpoint endpoint;
    if (!Endpoint::parse(ip, port, endpoint)) continue;
    if (endpoint.is_loopback() && !host.empty() && !same_host) continue;
    result.push_back(endpoint);
  }
  if (same_host) std::stable_partition(result.begin(), result.end(), [](const Endpoint& e) { return e.is_loopback(); });
  return result;
}

bool Locator::leads_to(std::uint64_t found, const Endpoint& at, const std::string& own_host) const {
  if (context != 0) return context == found;
  const std::vector<Endpoint> all = endpoints(own_host);
  return std::any_of(all.begin(), all.end(),
                     [&](const Endpoint& endpoint) { return endpoint.port() == at.port() && endpoint.same_ip(at); });
}

}  // namespace ripc::internal::remote
