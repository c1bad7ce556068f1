// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import java.net.InetSocketAddress;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import org.eclipse.jetty.client.HttpClient;
import org.eclipse.jetty.io.Transport;
import org.eclipse.jetty.util.Promise;
import org.eclipse.jetty.util.SocketAddressResolver;
import org.libripc.ServiceId;

/**
 * Resolves hosts with a suffix to services: the connection uses a {@link RipcTransport}. Other
 * hosts are resolved as before.
 *
 * <p>Any thread.
 */
final class ServiceResolver implements SocketAddressResolver {
  private final RipcClient services;
  private final HttpClient client;
  private final String suffix;
  private volatile SocketAddressResolver others; // null: Jetty's usual one does not exist yet

  ServiceResolver(RipcClient services, HttpClient client, String suffix) {
    if (!suffix.startsWith(".") || suffix.length() == 1)
      throw new IllegalArgumentException("The suffix of hosts begins with a dot, as .ripc does");
    this.services = services;
    this.client = Objects.requireNonNull(client);
    this.suffix = suffix;
    others = client.getSocketAddressResolver();
  }

  @Override
  public void resolve(
      String host,
      int port,
      Map<String, Object> context,
      Promise<List<InetSocketAddress>> promise) {
    if (host.length() <= suffix.length() || !host.endsWith(suffix)) {
      others().resolve(host, port, context, promise);
      return;
    }
    String name = host.substring(0, host.length() - suffix.length());
    ServiceId server;
    try {
      server = ServiceId.ofName(name);
    } catch (RuntimeException problem) {
      promise.failed(problem);
      return;
    }
    // Replaces Jetty's default: a request that names its transport is not resolved.
    context.put(Transport.CONTEXT_KEY, services.transport(server));
    promise.succeeded(List.of(InetSocketAddress.createUnresolved(host, port)));
  }

  private SocketAddressResolver others() {
    if (others == null) {
      others =
          new SocketAddressResolver.Async(
              client.getExecutor(), client.getScheduler(), client.getAddressResolutionTimeout());
    }
    return others;
  }
}
