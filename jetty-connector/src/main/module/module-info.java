// SPDX-License-Identifier: Apache-2.0

/** Jetty over libripc: HTTP between services. */
@SuppressWarnings({"requires-automatic", "requires-transitive-automatic"}) // org.libripc
module org.libripc.jetty {
  requires transitive org.eclipse.jetty.server;
  requires transitive org.libripc;
  requires transitive org.libripc.stream;
  requires static transitive org.eclipse.jetty.client;

  exports org.libripc.jetty;
}
