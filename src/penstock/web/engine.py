from fastapi import APIRouter

routes = APIRouter(prefix="/api", tags=["engine"])
