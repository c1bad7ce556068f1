// SPDX-License-Identifier: Apache-2.0
// libripc for C++: how classes own the handles of ripc.h. Part of ripc/ripc.hpp; include that.
#pragma once

#include <memory>

#include "ripc/ripc.h"

namespace ripc::detail {

template <auto End>
struct Ender {
  template <typename Handle>
  void operator()(Handle* handle) const noexcept {
    (void)End(handle);
  }
};

// Owns one handle, which End gives back. Move-only; after a move the source is empty.
template <typename Handle, auto End>
using Owner = std::unique_ptr<Handle, Ender<End>>;

}  // namespace ripc::detail
