// SPDX-License-Identifier: Apache-2.0
// The parts of the self-check of the RDMA transport.
#pragma once

#include <span>

#include "capi/diagnose.hpp"
#include "transport/verbs/device/device_list.hpp"
#include "transport/verbs/device/sysfs_devices.hpp"

namespace ripc::internal::capi {

// What a port can be used for. `paths`: all addresses that lead to devices.
void check_port(Report& report, std::span<const verbs::DevicePort> paths, const verbs::DeviceInfo& device,
                const verbs::PortInfo& port);

// Reports nothing if enough memory may be locked.
void check_locked_memory(Report& report);

}  // namespace ripc::internal::capi
