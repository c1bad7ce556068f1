// SPDX-License-Identifier: Apache-2.0
#include "transport/verbs/device/verbs_library.hpp"

#include <dlfcn.h>

#include <string>

namespace ripc::internal::verbs {

namespace {

constexpr const char* kVerbs = "libibverbs.so.1";
constexpr const char* kRdmacm = "librdmacm.so.1";

Result<void*> open(const char* name) {
  void* handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle != nullptr) return handle;
  return Status(RIPC_UNSUPPORTED, std::string(name) +
                                      " is not installed: install libibverbs1, librdmacm1 and ibverbs-providers to "
                                      "use RDMA devices.");
}

Status missing(const char* function) {
  return Status(RIPC_UNSUPPORTED,
                "The RDMA libraries of this system have no " + std::string(function) + ": install a newer rdma-core.");
}

}  // namespace

Result<std::shared_ptr<const VerbsLibrary>> VerbsLibrary::load() {
  const Result<void*> verbs = open(kVerbs);
  if (!verbs.ok()) return verbs.status();
  const Result<void*> rdmacm = open(kRdmacm);
  if (!rdmacm.ok()) return rdmacm.status();
  auto library = std::make_shared<VerbsLibrary>();
  // POSIX has functions and data in one address space, but C++ does not guarantee that.
  // NOLINTBEGIN(bugprone-macro-parentheses): names that are declared
#define RIPC_LOAD(handle, member, function)                                             \
  library->member = reinterpret_cast<decltype(&::function)>(dlsym(*handle, #function)); \
  if (library->member == nullptr) return missing(#function);
  // NOLINTEND(bugprone-macro-parentheses)
#define RIPC_LOAD_VERBS(member, function) RIPC_LOAD(verbs, member, function)
#define RIPC_LOAD_RDMACM(member, function) RIPC_LOAD(rdmacm, member, function)
  RIPC_VERBS_FUNCTIONS(RIPC_LOAD_VERBS)
  RIPC_RDMACM_FUNCTIONS(RIPC_LOAD_RDMACM)
#undef RIPC_LOAD_RDMACM
#undef RIPC_LOAD_VERBS
#undef RIPC_LOAD
  return std::shared_ptr<const VerbsLibrary>(std::move(library));
}

}  // namespace ripc::internal::verbs
