// SPDX-License-Identifier: Apache-2.0
/**
 * Hadoop's shuffle over libripc: {@link org.libripc.hadoop.RipcShuffleHandler} for NodeManagers,
 * {@link org.libripc.hadoop.RipcShuffle} for reducers. docs/hadoop.md is the guide.
 */
package org.libripc.hadoop;
