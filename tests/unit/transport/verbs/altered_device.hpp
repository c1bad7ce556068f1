// SPDX-License-Identifier: Apache-2.0
// A device that claims something else than the real one that it is.
#pragma once

#include "transport/verbs/device/device_list.hpp"

namespace ripc::internal::verbs {

// With windows that are as narrow as they should be.
inline DevicePointer with_narrow_windows(const DevicePointer& device) {
  auto* const copy = new Device;
  copy->library = device->library;
  copy->context = device->context;
  copy->pd = device->pd;
  copy->name = device->name;
  copy->iwarp = device->iwarp;
  copy->windows = copy->narrow_windows = true;
  copy->invalidated_flags = device->invalidated_flags;
  copy->read_depth = device->read_depth;
  copy->max_message = device->max_message;
  return {copy, [device](Device* one) {
            // They are the real one's.
            one->context = nullptr;
            one->pd = nullptr;
            delete one;
          }};
}

}  // namespace ripc::internal::verbs
