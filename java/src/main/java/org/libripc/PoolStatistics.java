// SPDX-License-Identifier: Apache-2.0
package org.libripc;

/**
 * The context's pool of registered memory, as libripc sees it. Immutable.
 *
 * @param limit bytes at most
 * @param reserved bytes taken from the system
 * @param leased bytes leased, to {@link RegisteredBuffer}s in use and to those kept for the next
 *     lease
 * @param leases leases since the start
 * @param reuses of these, from memory that was there
 * @param releases leases ended
 * @param deferredReleases of these, kept for a ticket
 * @param failures leases that found no memory
 * @param arenas pieces of memory
 * @param hugePageArenas of these, with huge pages
 * @param registrations registrations of foreign memory
 * @param registrationHits of these, known already
 * @param inUse bytes of leases that a {@link RegisteredBuffer} or a message under way uses now: 0
 *     when everything was given back, whatever is kept
 */
public record PoolStatistics(
    long limit,
    long reserved,
    long leased,
    long leases,
    long reuses,
    long releases,
    long deferredReleases,
    long failures,
    long arenas,
    long hugePageArenas,
    long registrations,
    long registrationHits,
    long inUse) {}
