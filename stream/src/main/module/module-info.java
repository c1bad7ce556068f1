// SPDX-License-Identifier: Apache-2.0

/** Streams of bytes between services of libripc. */
@SuppressWarnings({"requires-automatic", "requires-transitive-automatic"}) // org.libripc
module org.libripc.stream {
  requires org.slf4j;
  requires transitive org.libripc;

  exports org.libripc.stream;
}
