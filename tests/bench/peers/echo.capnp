# SPDX-License-Identifier: Apache-2.0
@0xd3a1f5c27b9e4860;

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("peers");

interface Echo {
  echo @0 (data :Data) -> (data :Data);
}
