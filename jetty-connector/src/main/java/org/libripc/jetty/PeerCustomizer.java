// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import org.eclipse.jetty.http.HttpFields;
import org.eclipse.jetty.io.EndPoint;
import org.eclipse.jetty.server.HttpConfiguration;
import org.eclipse.jetty.server.Request;

/** Gives each request of a {@link RipcConnector} the attribute that says who sent it. */
final class PeerCustomizer implements HttpConfiguration.Customizer {
  @Override
  public Request customize(Request request, HttpFields.Mutable responseHeaders) {
    EndPoint endPoint = request.getConnectionMetaData().getConnection().getEndPoint();
    // Another layer, such as TLS, may lie on top of it.
    while (endPoint instanceof EndPoint.Wrapper) endPoint = ((EndPoint.Wrapper) endPoint).unwrap();
    if (endPoint instanceof RipcEndPoint) {
      request.setAttribute(RipcConnector.PEER_ATTRIBUTE, ((RipcEndPoint) endPoint).provenPeer());
    }
    return request;
  }
}
