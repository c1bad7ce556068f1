// SPDX-License-Identifier: Apache-2.0
/**
 * Calls: a request, its answer, and one known outcome. Start with {@link org.libripc.rpc.Rpc};
 * docs/calls.md is the guide.
 *
 * <p>A call runs at most once and ends exactly once, at its deadline at the latest. The rules of
 * {@link org.libripc} hold here too.
 */
package org.libripc.rpc;
