// SPDX-License-Identifier: Apache-2.0
// Real devices that are altered to claim other abilities, or to count what they are asked for.
#pragma once

#include <atomic>
#include <utility>

#include "transport/verbs/device/device_list.hpp"

namespace ripc::internal::verbs {

// A copy of the device that claims windows that are as narrow as they should be.
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
            // These belong to the real device.
            one->context = nullptr;
            one->pd = nullptr;
            delete one;
          }};
}

// Counts the registrations of memory with any device. Only one may exist at a time.
class Registrations {
 public:
  explicit Registrations(const DeviceList& devices) : library_(const_cast<VerbsLibrary&>(*devices.library())) {
    count_ = 0;
    real_ = std::exchange(library_.reg_mr, counted);
  }
  ~Registrations() { library_.reg_mr = real_; }
  Registrations(const Registrations&) = delete;
  Registrations& operator=(const Registrations&) = delete;

  // Registrations since construction.
  std::uint64_t count() const { return count_; }

 private:
  static ibv_mr* counted(ibv_pd* domain, void* start, std::size_t size, int access) {
    ibv_mr* const made = real_(domain, start, size, access);
    if (made != nullptr) ++count_;
    return made;
  }

  static inline decltype(VerbsLibrary::reg_mr) real_ = nullptr;
  static inline std::atomic<std::uint64_t> count_{0};
  VerbsLibrary& library_;
};

}  // namespace ripc::internal::verbs
