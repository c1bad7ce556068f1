// SPDX-License-Identifier: Apache-2.0
package org.libripc;

import java.util.ArrayList;
import java.util.List;

/** The objects that keep the memory of a message's items; counted memory is retained. */
final class ItemMemory {
  /** What has to be kept until the loan ends: the sources of LONG items. */
  final List<Object> lent = new ArrayList<>();

  /** What is kept during the call. */
  final List<Object> used = new ArrayList<>();
}
