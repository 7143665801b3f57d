"""The tests' FastAPI app: what a framework makes of the address that a visitor used."""

from fastapi import FastAPI, Request, WebSocket
from fastapi.responses import FileResponse, StreamingResponse

app = FastAPI()


@app.get("/items/")
async def items(request: Request):
    return {"url": str(request.url), "client": request.client.host, "self": str(request.url_for("items"))}


@app.get("/file")
async def file():
    return FileResponse(__file__)


@app.get("/events")
async def events():
    async def stream():
        for n in range(3):
            yield f"data: {n}\n\n"

    return StreamingResponse(stream(), media_type="text/event-stream")


@app.websocket("/ws")
async def ws(socket: WebSocket):
    await socket.accept()
    await socket.send_text(str(socket.url))
    while True:
        await socket.send_text(await socket.receive_text())
