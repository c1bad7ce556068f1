// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

/**
 * Counters of an {@link Rpc} since it was opened. Immutable.
 *
 * @param calls calls begun; the next three count those that ended
 * @param answered calls that were answered
 * @param didNotRun calls that did not run
 * @param mayHaveRun calls that may have run
 * @param repeats requests and questions sent again, on paths that lose packets
 * @param requestsRun requests handed to a handler
 * @param requestsRefused requests refused: unknown method, busy executor, no session, or {@link
 *     Request#refuse}
 * @param requestsExpired requests that did not run, because the caller's time was over or the
 *     caller had cancelled; includes those refused with {@link org.libripc.Status#TIMEOUT}
 * @param duplicates requests that had already come
 * @param answersRepeated kept answers sent again
 * @param sessionsOpened sessions with servers
 * @param sessionsServed sessions of clients
 * @param dropped messages that are not calls, or belong to no session
 */
public record RpcStatistics(
    long calls,
    long answered,
    long didNotRun,
    long mayHaveRun,
    long repeats,
    long requestsRun,
    long requestsRefused,
    long requestsExpired,
    long duplicates,
    long answersRepeated,
    long sessionsOpened,
    long sessionsServed,
    long dropped) {}
