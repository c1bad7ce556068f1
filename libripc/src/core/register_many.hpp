// SPDX-License-Identifier: Apache-2.0
// Registering many services at once.
#pragma once

#include <span>

#include "base/status.hpp"

namespace ripc::internal::core {

class Context;
class Service;
struct ServiceOptions;

// Any thread. Registers all services in parallel, each as ServiceTable::add() does. Where other hosts are asked whether
// an ID is taken, it waits for all answers together. services[i] belongs to wanted[i]. If one cannot be registered,
// none is. The status is then that of the failed one, and its sentence begins with the service's name or number.
Status register_services(Context& context, std::span<const ServiceOptions> wanted, std::span<Service*> services);

}  // namespace ripc::internal::core
