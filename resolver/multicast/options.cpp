// SPDX-License-Identifier: Apache-2.0
#include "resolver/multicast/options.hpp"

#include <arpa/inet.h>
#include <net/if.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/parse_number.hpp"

namespace ripc::internal::resolver {
namespace {

constexpr std::uint64_t kMaxProbeMilliseconds = 10'000;

Status refuse(std::string_view item, const std::string& why) {
  return Status(RIPC_INVALID_ARGUMENT, "RIPC_MULTICAST: '" + std::string(item) + "' " + why + ".");
}

std::optional<std::uint64_t> number(std::string_view text, std::uint64_t most) noexcept {
  std::uint64_t value = 0;
  if (!parse_number(text, value) || value > most) return std::nullopt;
  return value;
}

Status add_interface(MulticastOptions& options, std::string_view item, std::string_view name) {
  if (name.empty() || name.size() >= IF_NAMESIZE || name.find('/') != std::string_view::npos)
    return refuse(item, "names no network interface: it has 1 to 15 characters, see `ip link`");
  if (std::ranges::find(options.interfaces, name) == options.interfaces.end()) options.interfaces.emplace_back(name);
  return {};
}

bool parse_address(const std::string& text, MulticastGroup& group) noexcept {
  if (::inet_pton(AF_INET, text.c_str(), &group.ipv4) == 1) return IN_MULTICAST(ntohl(group.ipv4.s_addr));
  group.is_ipv6 = true;
  return ::inet_pton(AF_INET6, text.c_str(), &group.ipv6) == 1 && IN6_IS_ADDR_MULTICAST(&group.ipv6);
}

Status add_group(MulticastOptions& options, std::string_view item) {
  std::string_view rest = item;
  if (const std::size_t percent = rest.find('%'); percent != std::string_view::npos) {
    if (Status status = add_interface(options, item, rest.substr(percent + 1)); !status.ok()) return status;
    rest = rest.substr(0, percent);
  }
  std::string_view port;
  bool has_port = false;
  if (rest.starts_with('[')) {
    const std::size_t end = rest.find(']');
    if (end == std::string_view::npos) return refuse(item, "lacks the closing bracket of its address");
    has_port = end + 1 < rest.size();
    if (has_port && rest[end + 1] != ':') return refuse(item, "has something after its address that is no :PORT");
    if (has_port) port = rest.substr(end + 2);
    rest = rest.substr(1, end - 1);
  } else if (const std::size_t colon = rest.find(':');
             colon != std::string_view::npos && rest.find(':', colon + 1) == std::string_view::npos) {
    has_port = true;
    port = rest.substr(colon + 1);
    rest = rest.substr(0, colon);
  }
  MulticastGroup group;
  if (!parse_address(std::string(rest), group))
    return refuse(item,
                  "is not a multicast group, such as 239.255.82.73:26673 or [ff12::5249:5043]:26673, and not 'udp', "
                  "'fabric' or 'off'");
  if (has_port) {
    const std::optional<std::uint64_t> value = number(port, 65535);
    if (!value || *value == 0) return refuse(item, "has no port from 1 to 65535 after its address");
    group.port = static_cast<std::uint16_t>(*value);
  }
  if (options.groups.size() == kMaxMulticastGroups) return refuse(item, "is one group too many: there may be 4");
  options.groups.push_back(group);
  return {};
}

Status add_option(MulticastOptions& options, std::string_view item, std::size_t equals) {
  const std::string_view name = item.substr(0, equals);
  const std::string_view value = item.substr(equals + 1);
  if (name == "interface") return add_interface(options, item, value);
  if (name == "ttl") {
    const std::optional<std::uint64_t> hops = number(value, 255);
    if (!hops) return refuse(item, "is no number of hops from 0 to 255");
    options.ttl = static_cast<unsigned>(*hops);
    return {};
  }
  if (name == "probe") {
    const std::optional<std::uint64_t> milliseconds = number(value, kMaxProbeMilliseconds);
    if (!milliseconds) return refuse(item, "is no number of milliseconds from 0 to 10000");
    options.probe_time = *milliseconds * 1'000'000;
    return {};
  }
  return refuse(item, "is no option: there are ttl=HOPS, interface=NAME and probe=MILLISECONDS");
}

MulticastGroup default_group(std::string_view address) {
  MulticastGroup group;
  static_cast<void>(parse_address(std::string(address), group));
  return group;
}

}  // namespace

std::string MulticastGroup::text() const {
  std::array<char, INET6_ADDRSTRLEN> address{};
  const void* bytes = is_ipv6 ? static_cast<const void*>(&ipv6) : &ipv4;
  ::inet_ntop(is_ipv6 ? AF_INET6 : AF_INET, bytes, address.data(), address.size());
  const std::string text = is_ipv6 ? "[" + std::string(address.data()) + "]" : std::string(address.data());
  return text + ":" + std::to_string(port);
}

Result<MulticastOptions> parse_multicast_options(std::string_view text) {
  MulticastOptions options;
  bool names_networks = false;
  if (text == "on") text = {};
  while (!text.empty()) {
    const std::size_t end = text.find(',');
    const std::string_view item = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (item.empty()) continue;
    if (item == "udp" || item == "fabric") {
      if (!names_networks) options.udp = options.fabric = false;
      names_networks = true;
      (item == "udp" ? options.udp : options.fabric) = true;
      continue;
    }
    const std::size_t equals = item.find('=');
    Status status = equals == std::string_view::npos ? add_group(options, item) : add_option(options, item, equals);
    if (!status.ok()) return status;
  }
  if (!options.udp && options.ttl == 0)
    return refuse("ttl=0", "keeps questions on this host, and 'fabric' alone cannot: add 'udp', or leave it out");
  if (options.groups.empty()) options.groups = {default_group(kDefaultGroup4), default_group(kDefaultGroup6)};
  return options;
}

}  // namespace ripc::internal::resolver
