// SPDX-License-Identifier: Apache-2.0
namespace cpp peers

service Echo {
  binary echo(1: binary data)
}
