// SPDX-License-Identifier: Apache-2.0
package org.libripc.jetty;

import org.eclipse.jetty.io.Content;
import org.eclipse.jetty.server.Handler;
import org.eclipse.jetty.server.Request;
import org.eclipse.jetty.server.Response;
import org.eclipse.jetty.util.Callback;

/** Handlers that tests share. */
final class Handlers {
  interface Body {
    void handle(Request request, Response response, Callback callback) throws Exception;
  }

  private Handlers() {}

  /** Answers with nothing, and does not block. */
  static Handler ok() {
    return new Handler.Abstract.NonBlocking() {
      @Override
      public boolean handle(Request request, Response response, Callback callback) {
        callback.succeeded();
        return true;
      }
    };
  }

  static Handler handler(Body body) {
    return new Handler.Abstract() {
      @Override
      public boolean handle(Request request, Response response, Callback callback)
          throws Exception {
        body.handle(request, response, callback);
        return true;
      }
    };
  }

  /** Answers with the path that was asked for. */
  static Handler path() {
    return handler(
        (request, response, callback) ->
            Content.Sink.write(response, true, request.getHttpURI().getPath(), callback));
  }
}
