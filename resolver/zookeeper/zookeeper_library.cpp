// SPDX-License-Identifier: Apache-2.0
#include "resolver/zookeeper/zookeeper_library.hpp"

#include <dlfcn.h>

#include <mutex>
#include <type_traits>
#include <utility>

namespace ripc::internal::resolver::zk {
namespace {

constexpr const char* kFile = "libzookeeper_st.so.2";

}  // namespace

Result<std::shared_ptr<const Library>> Library::load() {
  void* const handle = ::dlopen(kFile, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr)
    return Status(RIPC_UNSUPPORTED, std::string("RIPC_ZOOKEEPER is set, but ") + kFile +
                                        " is not installed: install the package libzookeeper-st2, or unset it.");
  auto library = std::make_shared<Library>();
  const char* missing = nullptr;
  const auto find = [&](auto& function, const char* name) {
    // POSIX lets a data pointer hold a function's address, but C++ does not.
    function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(::dlsym(handle, name));
    if (function == nullptr) missing = name;
  };
  find(library->init, "zookeeper_init2");
  find(library->close, "zookeeper_close");
  find(library->set_servers, "zoo_set_servers");
  find(library->set_resolution_delay, "zoo_set_servers_resolution_delay");
  find(library->interest, "zookeeper_interest");
  find(library->process, "zookeeper_process");
  find(library->state, "zoo_state");
  find(library->session_timeout, "zoo_recv_timeout");
  find(library->client_id, "zoo_client_id");
  find(library->error_text, "zerror");
  find(library->get, "zoo_awget");
  find(library->exists, "zoo_awexists");
  find(library->children, "zoo_awget_children");
  find(library->create, "zoo_acreate");
  find(library->sync, "zoo_async");
  find(library->multi, "zoo_amulti");
  find(library->remove_watches, "zoo_aremove_watches");
  find(library->create_op, "zoo_create_op_init");
  find(library->delete_op, "zoo_delete_op_init");
  find(library->set_op, "zoo_set_op_init");
  find(library->check_op, "zoo_check_op_init");
  find(library->set_log_level, "zoo_set_debug_level");
  find(library->open_access, "ZOO_OPEN_ACL_UNSAFE");
  if (missing != nullptr)
    return Status(RIPC_UNSUPPORTED, std::string(kFile) + " has no " + missing +
                                        ": install a newer libzookeeper-st2 (3.8 or later), or unset RIPC_ZOOKEEPER.");
  static std::once_flag is_quiet;
  std::call_once(is_quiet, library->set_log_level, 0);
  return std::shared_ptr<const Library>(std::move(library));
}

}  // namespace ripc::internal::resolver::zk
