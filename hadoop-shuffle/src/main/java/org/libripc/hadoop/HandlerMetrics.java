// SPDX-License-Identifier: Apache-2.0
package org.libripc.hadoop;

import org.apache.hadoop.metrics2.annotation.Metric;
import org.apache.hadoop.metrics2.annotation.Metrics;
import org.apache.hadoop.metrics2.lib.MutableCounterLong;
import org.apache.hadoop.metrics2.lib.MutableGaugeInt;

/** The NodeManager's source {@code RipcShuffle}. */
@Metrics(name = HandlerMetrics.SOURCE, about = "The shuffle over libripc", context = "mapred")
final class HandlerMetrics {
  static final String SOURCE = "RipcShuffle";

  @Metric("Bytes of map outputs sent")
  MutableCounterLong bytes;

  @Metric("Requests for bytes answered")
  MutableCounterLong dataRequests;

  @Metric("Requests for sizes answered")
  MutableCounterLong sizeRequests;

  @Metric("Sessions begun")
  MutableCounterLong sessions;

  @Metric("Requests with a wrong or unknown token, or malformed")
  MutableCounterLong refused;

  @Metric("Requests of no session, or that had come before")
  MutableCounterLong replayed;

  @Metric("Requests for outputs that are not there or cannot be read")
  MutableCounterLong notThere;

  @Metric("Requests turned away because too many waited")
  MutableCounterLong busy;

  @Metric("Map outputs whose index is kept")
  MutableGaugeInt knownOutputs;

  @Metric("Descriptors kept open")
  MutableGaugeInt openFiles;
}
