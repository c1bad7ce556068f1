// SPDX-License-Identifier: Apache-2.0
// The addresses of this machine's network interfaces.
#pragma once

#include <ifaddrs.h>

#include <memory>

namespace ripc::internal {

// The result of getifaddrs(), which frees itself. Null: errno says why.
using InterfaceList = std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)>;

inline InterfaceList list_interfaces() noexcept {
  ifaddrs* list = nullptr;
  return {::getifaddrs(&list) == 0 ? list : nullptr, &::freeifaddrs};
}

}  // namespace ripc::internal
