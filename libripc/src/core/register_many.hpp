// SPDX-License-Identifier: Apache-2.0
// Registering many services at once.
#pragma once

#include <span>

#include "base/status.hpp"

namespace ripc::internal::core {

class Context;
class Service;
struct ServiceOptions;

// Any thread. Registers all of them side by side, as ServiceTable::add() does. Where other hosts are asked whether an
// ID is taken, the answers are waited for together. services[i] is that of wanted[i]. If one cannot be registered none
// is, and its status is returned; its sentence begins with its name or number.
Status register_services(Context& context, std::span<const ServiceOptions> wanted, std::span<Service*> services);

}  // namespace ripc::internal::core
