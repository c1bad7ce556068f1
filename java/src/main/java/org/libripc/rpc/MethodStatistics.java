// SPDX-License-Identifier: Apache-2.0
package org.libripc.rpc;

import java.nio.ByteBuffer;
import java.util.EnumMap;
import java.util.Map;
import org.libripc.Status;
import org.libripc.internal.Layout;

/**
 * Counters of one method of an {@link Rpc} since it was opened. Immutable.
 *
 * @param method its number
 * @param calls calls to it that were begun; the next three count those that ended
 * @param answered calls that were answered
 * @param didNotRun calls that did not run
 * @param mayHaveRun calls that may have run
 * @param repeats requests and questions sent again
 * @param statuses how many calls ended with each status; a status with no calls is missing
 * @param callTime times of answered calls, from their begin. Of calls to single services over
 *     shared memory, only one in 16 is measured after the first 64
 * @param requestsRun requests handed to a handler
 * @param requestsRefused requests refused
 * @param requestsExpired requests that did not run because nobody waited any longer
 * @param requestTime times of answered requests: waiting for a worker, and the handler. Of requests
 *     that are answered inside a handler without a worker, only one in 16 is measured after the
 *     first 64
 */
public record MethodStatistics(
    int method,
    long calls,
    long answered,
    long didNotRun,
    long mayHaveRun,
    long repeats,
    Map<Status, Long> statuses,
    Latency callTime,
    long requestsRun,
    long requestsRefused,
    long requestsExpired,
    Latency requestTime) {
  static MethodStatistics read(ByteBuffer from) {
    Map<Status, Long> statuses = new EnumMap<>(Status.class);
    for (Status each : Status.values()) {
      long count = from.getLong(Layout.MethodStatistics.STATUSES + 8 * each.code());
      if (count != 0) statuses.put(each, count);
    }
    return new MethodStatistics(
        from.getInt(Layout.MethodStatistics.METHOD),
        from.getLong(Layout.MethodStatistics.CALLS),
        from.getLong(Layout.MethodStatistics.ANSWERED),
        from.getLong(Layout.MethodStatistics.DID_NOT_RUN),
        from.getLong(Layout.MethodStatistics.MAY_HAVE_RUN),
        from.getLong(Layout.MethodStatistics.REPEATS),
        Map.copyOf(statuses),
        Latency.read(from, Layout.MethodStatistics.CALL_TIME),
        from.getLong(Layout.MethodStatistics.REQUESTS_RUN),
        from.getLong(Layout.MethodStatistics.REQUESTS_REFUSED),
        from.getLong(Layout.MethodStatistics.REQUESTS_EXPIRED),
        Latency.read(from, Layout.MethodStatistics.REQUEST_TIME));
  }
}
