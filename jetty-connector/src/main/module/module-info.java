// SPDX-License-Identifier: Apache-2.0

/** Jetty over libripc: HTTP between services. */
@SuppressWarnings({"requires-automatic", "requires-transitive-automatic"}) // org.libripc
module org.libripc.jetty {
  requires org.slf4j;
  requires transitive org.eclipse.jetty.server;
  requires transitive org.libripc;
  requires static transitive org.eclipse.jetty.client;

  exports org.libripc.jetty;
}
